internal import Interlock
internal import SidecarListeners

/// The decisions per second in the recent past, for plots. Kept only in memory. Confined to the coordinator's event
/// loop.
final class RateHistory {
    /// The kinds of counts that are summed over all services and locks.
    enum Total: String, CaseIterable {
        case locksGranted = "locks_granted"
        case locksRefused = "locks_held"
        case locksReleased = "locks_released"
        case callsTaken = "calls_taken"
        case callsLimited = "calls_limited"
        case permitsGranted = "permits_granted"
        case permitsRefused = "permits_refused"
        case redisCommands = "redis_commands"
    }

    /// The kinds of counts for each service.
    enum PerService: String, CaseIterable {
        case callsTaken = "calls_taken"
        case callsLimited = "calls_limited"
        case permitsGranted = "permits_granted"
        case permitsRefused = "permits_refused"
        case outcomesGood = "outcomes_good"
        case outcomesFailed = "outcomes_failed"
    }

    /// The number of seconds for which the totals are kept.
    static let retentionSeconds = 300
    /// The number of seconds for which the counts of each service are kept.
    static let serviceRetentionSeconds = 60

    /// The number of calls of `sample` so far.
    private(set) var sampleCount = 0
    private var totals = PerSecondSeries(kinds: Total.allCases.count, seconds: RateHistory.retentionSeconds)
    /// The counts of each service that has had any activity.
    private var services: [String: PerSecondSeries] = [:]

    /// Records the increase of the counts since the last call. Must be called once a second.
    func sample(_ counts: DecisionCounts) {
        sampleCount += 1
        totals.append(
            Total.allCases.map { total in
                switch total {
                case .locksGranted: counts.locksGranted
                case .locksRefused: counts.locksRefused
                case .locksReleased: counts.locksReleased
                case .callsTaken: counts.serviceTotals.callsTaken
                case .callsLimited: counts.serviceTotals.callsLimited
                case .permitsGranted: counts.serviceTotals.permitsGranted
                case .permitsRefused: counts.serviceTotals.permitsRefused
                case .redisCommands: counts.redisCommands
                }
            })
        for service in Array(services.keys) where counts.services[service] == nil { services[service] = nil }
        for (service, counts) in counts.services where counts != ServiceCounts() || services[service] != nil {
            services[
                service, default: PerSecondSeries(kinds: PerService.allCases.count, seconds: Self.serviceRetentionSeconds)
            ].append(Self.values(counts))
        }
    }

    private static func values(_ counts: ServiceCounts) -> [Int64] {
        PerService.allCases.map { kind in
            switch kind {
            case .callsTaken: counts.callsTaken
            case .callsLimited: counts.callsLimited
            case .permitsGranted: counts.permitsGranted
            case .permitsRefused: counts.permitsRefused
            case .outcomesGood: counts.outcomesGood
            case .outcomesFailed: counts.outcomesFailed
            }
        }
    }

    /// The totals, one list for each kind, the newest second last.
    var fields: [String: JSONValue] {
        Dictionary(uniqueKeysWithValues: Total.allCases.enumerated().map { ($1.rawValue, totals.list($0)) })
    }

    func fields(ofService service: String) -> [String: JSONValue] {
        let series = services[service] ?? PerSecondSeries(kinds: PerService.allCases.count, seconds: 0)
        return Dictionary(uniqueKeysWithValues: PerService.allCases.enumerated().map { ($1.rawValue, series.list($0)) })
    }

    /// Returns the services whose limits refused calls in the last minute, with their numbers of calls. The services
    /// with the most refusals come first.
    func limitedServices(maximum: Int) -> [[String: JSONValue]] {
        let limitedServices = services.filter { $0.value.sum(Self.limitedKindIndex) > 0 }.sorted {
            ($1.value.sum(Self.limitedKindIndex), $0.key) < ($0.value.sum(Self.limitedKindIndex), $1.key)
        }
        return limitedServices.prefix(maximum).map { service, series in
            [
                "service": .string(service),
                PerService.callsLimited.rawValue: .integer(series.sum(Self.limitedKindIndex)),
                PerService.callsTaken.rawValue: .integer(series.sum(Self.takenKindIndex)),
            ]
        }
    }

    private static let limitedKindIndex = PerService.allCases.firstIndex(of: .callsLimited) ?? 0
    private static let takenKindIndex = PerService.allCases.firstIndex(of: .callsTaken) ?? 0

    /// Returns the sum of each kind over the last minute.
    func lastMinute(ofService service: String) -> [String: JSONValue] {
        Dictionary(
            uniqueKeysWithValues: PerService.allCases.enumerated().map {
                ($1.rawValue, .integer(services[service]?.sum($0) ?? 0))
            })
    }
}

/// A ring buffer of the increase of several counters in each of the last seconds.
private struct PerSecondSeries {
    private let kindCount: Int
    private let seconds: Int
    private var values: [Int32] = []
    /// The index in `values` of the oldest second.
    private var oldestIndex = 0
    private var lastCounts: [Int64]
    private var sums: [Int64]

    init(kinds kindCount: Int, seconds: Int) {
        self.kindCount = kindCount
        self.seconds = seconds
        lastCounts = Array(repeating: 0, count: kindCount)
        sums = lastCounts
    }

    /// Records the increase in the last second. A decrease counts as 0.
    mutating func append(_ counts: [Int64]) {
        defer { lastCounts = counts }
        let isFull = values.count == kindCount * seconds
        for kindIndex in 0..<kindCount {
            let increase = Int32(clamping: max(0, counts[kindIndex] - lastCounts[kindIndex]))
            sums[kindIndex] += Int64(increase)
            if isFull {
                sums[kindIndex] -= Int64(values[oldestIndex + kindIndex])
                values[oldestIndex + kindIndex] = increase
            } else {
                values.append(increase)
            }
        }
        if isFull { oldestIndex = (oldestIndex + kindCount) % values.count }
    }

    /// Returns the sum of the increases of one kind.
    func sum(_ kindIndex: Int) -> Int64 { sums[kindIndex] }

    /// Returns the increases of one kind, the newest second last.
    func list(_ kindIndex: Int) -> JSONValue {
        guard !values.isEmpty else { return .array([]) }
        let olderIndices = stride(from: oldestIndex, to: values.count, by: kindCount)
        let newerIndices = stride(from: 0, to: oldestIndex, by: kindCount)
        return .array((Array(olderIndices) + newerIndices).map { .integer(Int64(values[$0 + kindIndex])) })
    }
}
