/// The calls of one service that are evaluated together.
package struct ServiceBatch: Sendable {
    package private(set) var limits: LimitBatch
    package private(set) var requests: [LimitRequest] = []
    /// The sequence number of each request, which rises in order of arrival.
    private(set) var sequences: [UInt64] = []
    /// Whether any request waits if it is refused.
    private(set) var hasWaiters = false
    /// The number that identifies the batch in its limiter.
    var number: UInt64 = 0
    /// The subjects of per-subject limits, numbered from 1.
    private var subjects: [ExactText: Int] = [:]
    /// The subject number (0 for no subject) and the cost of the last run.
    private var lastRunKey = (subject: 0, cost: Int64(0))

    /// Creates an empty batch; see `LimitBatch.init` for the parameters.
    init(definitions: [LimitDefinition], shared: [Int], perSubject: [Int]) {
        limits = LimitBatch(definitions: definitions, shared: shared, perSubject: perSubject)
    }

    package var isEmpty: Bool { requests.isEmpty }

    /// Returns a copy of an empty batch with storage for as much as this batch holds, because the next batch is likely
    /// to be as large.
    func successor(of empty: ServiceBatch) -> ServiceBatch {
        var next = empty
        next.limits.reserveCapacity(of: limits)
        next.requests.reserveCapacity(requests.count)
        next.sequences.reserveCapacity(sequences.count)
        next.subjects.reserveCapacity(subjects.count)
        return next
    }

    mutating func append(_ request: LimitRequest, sequence: UInt64) {
        requests.append(request)
        sequences.append(sequence)
        let subjectNumber = number(of: request.subject)
        let waits = request.deadline != nil
        if waits { hasWaiters = true }
        if let run = limits.runs.last, lastRunKey == (subjectNumber, request.cost), run.waits == waits {
            return limits.extendLastRun(by: request.count)
        }
        lastRunKey = (subjectNumber, request.cost)
        for counter in 0..<limits.sharedCount { limits.appendCharge(request.cost, to: counter) }
        for counter in counters(ofSubject: subjectNumber) { limits.appendCharge(request.cost, to: counter) }
        limits.appendRun(count: request.count, waits: waits)
    }

    /// Returns the subject's number, and adds its counters if it is new; 0 if no per-subject limit applies.
    private mutating func number(of subject: String?) -> Int {
        guard let subject, limits.perSubjectCount > 0 else { return 0 }
        let knownCount = subjects.count
        let number = Self.value(&subjects[ExactText(subject), default: knownCount + 1])
        if number > knownCount { limits.appendSubject(subject) }
        return number
    }

    /// Reads a dictionary entry, which its `default:` subscript creates if it is missing, with a single lookup.
    private static func value(_ entry: inout Int) -> Int { entry }

    private func counters(ofSubject number: Int) -> Range<Int> {
        guard number > 0 else { return 0..<0 }
        let start = limits.sharedCount + (number - 1) * limits.perSubjectCount
        return start..<(start + limits.perSubjectCount)
    }

    /// Returns the indices of the counters that the request at `index` takes from.
    package func counters(ofRequestAt index: Int) -> [Int] {
        let subjectNumber = requests[index].subject.flatMap { subjects[ExactText($0)] } ?? 0
        return Array(0..<limits.sharedCount) + Array(counters(ofSubject: subjectNumber))
    }

    /// Returns whether the limits of the whole service have capacity for another call after `granted` calls of this
    /// batch.
    package func hasCapacity(after granted: Int64, by verdict: BatchVerdict) -> Bool {
        (0..<limits.sharedCount).allSatisfy { index in
            limits.isShadow(index) || verdict.counters[index].count + granted < verdict.counters[index].capacity
        }
    }

    /// Records the known ends of fixed windows.
    mutating func record(_ ends: WindowEnds) { limits.record(ends) }

    /// The requests in order, with their sequence numbers.
    var calls: Zip2Sequence<[LimitRequest], [UInt64]> { zip(requests, sequences) }
}
