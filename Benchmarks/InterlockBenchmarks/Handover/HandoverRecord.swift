import NIOCore

/// The events of the one lock, in the order in which its clients observe them.
///
/// One process with one clock observes all events: each release before it is sent, and each grant when it arrives. A
/// grant that arrives while the lock counts as held is therefore a violation.
struct HandoverRecord {
    typealias Client = ObjectIdentifier

    private enum Lock {
        case unused
        case held
        case released(by: Client, NIODeadline)
    }

    /// The start of the measured time.
    private let begin: NIODeadline
    /// The end of the measured time.
    private let end: NIODeadline
    private var lock = Lock.unused
    private var lastFence = Int64.min
    /// The times from each release to the next grant.
    private var handoverTimes: [TimeAmount] = []
    private var cycles = 0
    private var allCycles = 0
    private var toAnother = 0
    private var maximumWait = TimeAmount.zero
    private var errors = 0
    private var firstError: String?
    private var violations = 0
    private var areFencesInOrder = true

    init(begin: NIODeadline, end: NIODeadline) {
        self.begin = begin
        self.end = end
    }

    /// Records that a client acquired the lock.
    mutating func addGrant(to client: Client, fence: Int64, requestedAt: NIODeadline, now: NIODeadline) {
        allCycles += 1
        if fence <= lastFence { areFencesInOrder = false }
        lastFence = max(lastFence, fence)
        addWait(since: requestedAt, now: now)
        if begin <= now, now < end {
            cycles += 1
            if case .released(let former, let releasedAt) = lock {
                handoverTimes.append(now - releasedAt)
                if former != client { toAnother += 1 }
            }
        }
        if case .held = lock { violations += 1 }
        lock = .held
    }

    /// Records that a client is about to release the lock.
    mutating func addRelease(_ client: Client, now: NIODeadline) {
        lock = .released(by: client, now)
    }

    /// Records the part of a client's wait that lies within the measured time, even if the wait is not over.
    mutating func addWait(since requestedAt: NIODeadline, now: NIODeadline) {
        let (waitBegin, waitEnd) = (max(requestedAt, begin), min(now, end))
        if waitBegin < waitEnd { maximumWait = max(maximumWait, waitEnd - waitBegin) }
    }

    /// Records an error.
    mutating func addError(_ reason: String) {
        errors += 1
        firstError = firstError ?? reason
    }

    func figures() throws -> HandoverFigures {
        let times = handoverTimes.sorted()
        guard let maximum = times.last else {
            throw BenchmarkFailure("the lock was never handed over; first error: \(firstError ?? "none")")
        }
        let length = end - begin
        return HandoverFigures(
            cycles: cycles, allCycles: allCycles, toAnother: toAnother, seconds: length.inSeconds,
            meanCycle: length.inMilliseconds / Double(cycles),
            median: times[times.count / 2].inMilliseconds,
            percentile99: times[times.count * 99 / 100].inMilliseconds,
            maximum: maximum.inMilliseconds, maximumWait: maximumWait.inMilliseconds,
            errors: errors, firstError: firstError, violations: violations, areFencesInOrder: areFencesInOrder)
    }
}

/// The figures of `handover`. Times are in milliseconds, except for `seconds`.
struct HandoverFigures: Figures {
    /// The number of grants within the measured time.
    var cycles: Int
    /// The number of all grants, including those before and after the measured time.
    var allCycles: Int
    /// The number of grants within the measured time that went to another client than the one before.
    var toAnother: Int
    var seconds: Double
    var meanCycle: Double
    /// The median time from a release to the next grant.
    var median: Double
    var percentile99: Double
    var maximum: Double
    /// The longest wait of any client within the measured time, including waits that did not end.
    var maximumWait: Double
    /// The number of calls with errors, lost connections, and clients that were still waiting when the run stopped.
    var errors: Int
    var firstError: String?
    /// The number of grants while another client held the lock.
    var violations: Int
    /// Whether every grant's fence was higher than that of the grant before.
    var areFencesInOrder: Bool

    enum CodingKeys: String, CodingKey {
        case cycles, seconds, errors, violations
        case allCycles = "all_cycles"
        case toAnother = "to_another"
        case meanCycle = "mean_cycle_ms"
        case median = "p50_ms"
        case percentile99 = "p99_ms"
        case maximum = "max_ms"
        case maximumWait = "longest_wait_ms"
        case firstError = "first_error"
        case areFencesInOrder = "fences_in_order"
    }
}
