/// The calls of one service that are evaluated together.
package struct ServiceBatch: Sendable {
    package private(set) var limits: LimitBatch
    package private(set) var requests: [LimitRequest] = []
    /// The position of each request in the order of arrival.
    private(set) var sequences: [UInt64] = []
    /// Whether any request waits if it is refused.
    private(set) var hasWaiters = false
    /// The number of this batch among those of its limiter.
    var number: UInt64 = 0
    /// The subjects of per-subject limits, numbered from 1.
    private var subjects: [ExactText: Int] = [:]
    /// The number of the last run's subject, or 0 if it has none, and its cost.
    private var last = (subject: 0, cost: Int64(0))

    /// Creates an empty batch. `LimitBatch` describes the parameters.
    init(definitions: [LimitDefinition], shared: [Int], perSubject: [Int]) {
        limits = LimitBatch(definitions: definitions, shared: shared, perSubject: perSubject)
    }

    package var isEmpty: Bool { requests.isEmpty }

    /// Returns an empty batch of the same limits, with storage for as much as this one holds, because the next batch is
    /// likely to be as large.
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
        let subject = number(of: request.subject)
        let waits = request.deadline != nil
        if waits { hasWaiters = true }
        if let run = limits.runs.last, last == (subject, request.cost), run.waits == waits {
            return limits.extendLastRun(by: request.count)
        }
        last = (subject, request.cost)
        for counter in 0..<limits.sharedCount { limits.appendCharge(request.cost, to: counter) }
        for counter in counters(ofSubject: subject) { limits.appendCharge(request.cost, to: counter) }
        limits.appendRun(count: request.count, waits: waits)
    }

    private mutating func number(of subject: String?) -> Int {
        guard let subject, limits.perSubjectCount > 0 else { return 0 }
        let known = subjects.count
        let number = Self.value(&subjects[ExactText(subject), default: known + 1])
        if number > known { limits.appendSubject(subject) }
        return number
    }

    /// Reads an entry, which is created if missing, with a single lookup.
    private static func value(_ entry: inout Int) -> Int { entry }

    private func counters(ofSubject number: Int) -> Range<Int> {
        guard number > 0 else { return 0..<0 }
        let start = limits.sharedCount + (number - 1) * limits.perSubjectCount
        return start..<(start + limits.perSubjectCount)
    }

    /// Returns the indices of the counters that bind the request at `index`.
    package func counters(ofRequestAt index: Int) -> [Int] {
        let subject = requests[index].subject.flatMap { subjects[ExactText($0)] } ?? 0
        return Array(0..<limits.sharedCount) + Array(counters(ofSubject: subject))
    }

    /// Returns whether the limits of the whole service have capacity for one more call after `granted` calls of this
    /// batch.
    package func hasCapacity(after granted: Int64, by verdict: BatchVerdict) -> Bool {
        (0..<limits.sharedCount).allSatisfy { index in
            limits.isShadow(index) || verdict.counters[index].count + granted < verdict.counters[index].capacity
        }
    }

    /// Records the known ends of fixed windows.
    mutating func note(_ ends: WindowEnds) { limits.note(ends) }

    /// The requests in order, with their positions in the order of arrival.
    var calls: Zip2Sequence<[LimitRequest], [UInt64]> { zip(requests, sequences) }
}
