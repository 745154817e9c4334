internal import Interlock
internal import SidecarListeners

/// The decisions per second in the recent past, for plots. Kept in memory only; confined to the coordinator's event
/// loop.
final class RateHistory {
    /// The kinds of counts over all services and locks.
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

    /// The number of seconds kept of the totals.
    static let seconds = 300
    /// The number of seconds kept for each service.
    static let serviceSeconds = 60

    /// The number of samples taken.
    private(set) var samples = 0
    private var totals = SecondSeries(kinds: Total.allCases.count, seconds: RateHistory.seconds)
    /// The counts of each service that has had any activity.
    private var services: [String: SecondSeries] = [:]

    /// Records the increase since the last call. Must be called once a second.
    func sample(_ counts: DecisionCounts) {
        samples += 1
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
            services[service, default: SecondSeries(kinds: PerService.allCases.count, seconds: Self.serviceSeconds)]
                .append(Self.values(counts))
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
        let series = services[service] ?? SecondSeries(kinds: PerService.allCases.count, seconds: 0)
        return Dictionary(uniqueKeysWithValues: PerService.allCases.enumerated().map { ($1.rawValue, series.list($0)) })
    }

    /// Returns the services whose limits refused calls in the last minute, with their numbers of calls. The services
    /// with the most refusals come first.
    func limitedServices(maximum: Int) -> [[String: JSONValue]] {
        let found = services.filter { $0.value.sum(Self.limitedKind) > 0 }.sorted {
            ($1.value.sum(Self.limitedKind), $0.key) < ($0.value.sum(Self.limitedKind), $1.key)
        }
        return found.prefix(maximum).map { service, series in
            [
                "service": .string(service), PerService.callsLimited.rawValue: .integer(series.sum(Self.limitedKind)),
                PerService.callsTaken.rawValue: .integer(series.sum(Self.takenKind)),
            ]
        }
    }

    private static let limitedKind = PerService.allCases.firstIndex(of: .callsLimited) ?? 0
    private static let takenKind = PerService.allCases.firstIndex(of: .callsTaken) ?? 0

    /// Returns the sum over the last minute for each kind.
    func minute(ofService service: String) -> [String: JSONValue] {
        Dictionary(
            uniqueKeysWithValues: PerService.allCases.enumerated().map {
                ($1.rawValue, .integer(services[service]?.sum($0) ?? 0))
            })
    }
}

/// The increase of several counters in each of the last seconds: a ring buffer.
private struct SecondSeries {
    private let kinds: Int
    private let seconds: Int
    private var values: [Int32] = []
    /// The index in `values` of the oldest second once the series is full, 0 before.
    private var oldest = 0
    private var last: [Int64]
    private var sums: [Int64]

    init(kinds: Int, seconds: Int) {
        self.kinds = kinds
        self.seconds = seconds
        last = Array(repeating: 0, count: kinds)
        sums = last
    }

    /// - Parameter now: the counters. A decrease counts as 0.
    mutating func append(_ now: [Int64]) {
        defer { last = now }
        let isFull = values.count == kinds * seconds
        for kind in 0..<kinds {
            let growth = Int32(clamping: max(0, now[kind] - last[kind]))
            sums[kind] += Int64(growth)
            if isFull {
                sums[kind] -= Int64(values[oldest + kind])
                values[oldest + kind] = growth
            } else {
                values.append(growth)
            }
        }
        if isFull { oldest = (oldest + kinds) % values.count }
    }

    func sum(_ kind: Int) -> Int64 { sums[kind] }

    func list(_ kind: Int) -> JSONValue {
        let indices =
            values.isEmpty
            ? [] : Array(stride(from: oldest, to: values.count, by: kinds)) + stride(from: 0, to: oldest, by: kinds)
        return .array(indices.map { .integer(Int64(values[$0 + kind])) })
    }
}
