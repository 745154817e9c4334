import NIOCore

/// Records the events of the one lock, in the order in which its clients observe them.
///
/// One process with one clock records a release before it is sent, and a grant when it arrives. A grant that arrives
/// while the lock counts as held is therefore a violation.
struct HandoffRecord {
    typealias Client = ObjectIdentifier

    private enum Lock {
        case unused
        case held
        case released(by: Client, NIODeadline)
    }

    /// The start of the measured time.
    private let begin: NIODeadline
    private let end: NIODeadline
    private var lock = Lock.unused
    private var lastFence = Int64.min
    private var handovers: [TimeAmount] = []
    private var cycles = 0
    private var allCycles = 0
    private var toAnother = 0
    private var maximumWait = TimeAmount.zero
    private var errors = 0
    private var firstError: String?
    private var violations = 0
    private var fencesInOrder = true

    init(begin: NIODeadline, end: NIODeadline) {
        self.begin = begin
        self.end = end
    }

    mutating func granted(to client: Client, fence: Int64, requestedAt: NIODeadline, now: NIODeadline) {
        allCycles += 1
        if fence <= lastFence { fencesInOrder = false }
        lastFence = max(lastFence, fence)
        waited(since: requestedAt, now: now)
        if begin <= now, now < end {
            cycles += 1
            if case .released(let former, let releasedAt) = lock {
                handovers.append(now - releasedAt)
                if former != client { toAnother += 1 }
            }
        }
        if case .held = lock { violations += 1 }
        lock = .held
    }

    mutating func willRelease(_ client: Client, now: NIODeadline) {
        lock = .released(by: client, now)
    }

    /// Counts the part of a client's wait that lies within the measured time, even if the wait is not over.
    mutating func waited(since requestedAt: NIODeadline, now: NIODeadline) {
        let (from, to) = (max(requestedAt, begin), min(now, end))
        if from < to { maximumWait = max(maximumWait, to - from) }
    }

    mutating func failed(_ reason: String) {
        errors += 1
        firstError = firstError ?? reason
    }

    func figures() throws -> HandoffFigures {
        let sorted = handovers.sorted()
        guard let maximum = sorted.last else {
            throw BenchmarkFailure("the lock was never handed over; first error: \(firstError ?? "none")")
        }
        let length = end - begin
        return HandoffFigures(
            cycles: cycles, allCycles: allCycles, toAnother: toAnother, seconds: length.inSeconds,
            meanCycle: length.inMilliseconds / Double(cycles),
            median: sorted[sorted.count / 2].inMilliseconds,
            percentile99: sorted[sorted.count * 99 / 100].inMilliseconds,
            maximum: maximum.inMilliseconds, maximumWait: maximumWait.inMilliseconds,
            errors: errors, firstError: firstError, violations: violations, fencesInOrder: fencesInOrder)
    }
}

/// The figures of `handover`. Times are in milliseconds.
struct HandoffFigures: Figures {
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
    /// The longest time that any client waited within the measured time, including waits that did not end.
    var maximumWait: Double
    /// The number of failed calls, lost connections, and clients that still waited when the run was stopped.
    var errors: Int
    var firstError: String?
    /// The number of grants while another client held the lock.
    var violations: Int
    /// Whether every grant's fence was higher than that of the grant before.
    var fencesInOrder: Bool

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
        case fencesInOrder = "fences_in_order"
    }
}
