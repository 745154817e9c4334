/// The requests of one service that travel together: one script judges them in order.
///
/// Its counters are the service-wide limits, then for each subject in turn the per-subject limits. Equal neighbours are
/// one run, so that the script's work grows with their variety and not with their number.
package struct LimitBatch: Sendable {
    /// Requests in a row that ask for the same.
    package struct Run: Equatable, Sendable {
        package var count: Int
        package var cost: Int64
        /// They wait when they are refused: then nobody behind them may take from the counters that they lacked.
        package var waits: Bool
        /// 0: no subject; else the number of its subject, from 1.
        package var group: Int
    }

    /// One counter as the script sees it.
    package struct Counter: Equatable, Sendable {
        package var definition: Int
        package var subject: String?
        /// When its fixed window ends, in ms by Redis' clock, as far as is known; 0: it is not.
        package var endsAt: Int64 = 0
        /// What all requests that it binds cost together.
        package var asked: Int64 = 0
    }

    /// With so many counters or runs it is full: Redis answers nobody else while it judges, and a larger one would take it
    /// longer than some tens of milliseconds.
    private static let mostCounters = 2000
    private static let mostRuns = 8000

    package let definitions: [LimitDefinition]
    let serviceWide: [Int]
    let perSubject: [Int]
    /// In the order of the script's keys.
    package private(set) var counters: [Counter]
    package private(set) var runs: [Run] = []
    package private(set) var requests: [LimitRequest] = []
    /// Some of its requests wait when they are refused.
    private(set) var hasWaiters = false
    /// Which of its limiter's batches it is.
    var number: UInt64 = 0
    private var groups: [ExactText: Int] = [:]

    init(definitions: [LimitDefinition], serviceWide: [Int], perSubject: [Int]) {
        self.definitions = definitions
        self.serviceWide = serviceWide
        self.perSubject = perSubject
        counters = serviceWide.map { Counter(definition: $0, subject: nil) }
    }

    /// An empty one of the same limits, with room for as much as this one holds: the next is likely to be as large.
    func successor() -> LimitBatch {
        var next = LimitBatch(definitions: definitions, serviceWide: serviceWide, perSubject: perSubject)
        next.counters.reserveCapacity(counters.count)
        next.runs.reserveCapacity(runs.count)
        next.requests.reserveCapacity(requests.count)
        next.groups.reserveCapacity(groups.count)
        return next
    }

    package var isEmpty: Bool { requests.isEmpty }
    var isFull: Bool { counters.count >= Self.mostCounters || runs.count >= Self.mostRuns }
    package var serviceWideCount: Int { serviceWide.count }
    package var perSubjectCount: Int { perSubject.count }

    /// The definitions in the order in which the script has their counters, those that no request of the batch met included.
    package var definitionsInOrder: [LimitDefinition] { (serviceWide + perSubject).map { definitions[$0] } }

    /// Whether the service's own limits have room for one more, when so much was granted of this batch.
    package func hasRoom(after granted: Int64, by verdict: LimitVerdict) -> Bool {
        (0..<serviceWideCount).allSatisfy { index in
            definitions[counters[index].definition].isShadow
                || verdict.counters[index].count + granted < verdict.counters[index].capacity
        }
    }

    /// Notes what is known of the windows' ends.
    mutating func note(_ ends: WindowEnds) {
        for index in counters.indices where definitions[counters[index].definition].algorithm == .fixed {
            counters[index].endsAt = ends[counters[index]]
        }
    }

    /// The places in `counters` of those that bind the request at `place`.
    package func counterIndices(ofRequestAt place: Int) -> [Int] {
        let group = requests[place].subject.flatMap { groups[ExactText($0)] } ?? 0
        let (wide, narrow) = counterIndices(ofGroup: group)
        return Array(wide) + Array(narrow)
    }

    /// The places in `counters` of those that bind `group`.
    func counterIndices(ofGroup group: Int) -> (serviceWide: Range<Int>, perSubject: Range<Int>) {
        let start = serviceWide.count + (group - 1) * perSubject.count
        return (0..<serviceWide.count, group == 0 ? 0..<0 : start..<(start + perSubject.count))
    }

    mutating func append(_ request: LimitRequest) {
        requests.append(request)
        let group = group(of: request.subject)
        let waits = request.deadline != nil
        if waits { hasWaiters = true }
        let cost = request.cost * Int64(request.count)
        let (wide, narrow) = counterIndices(ofGroup: group)
        for index in wide { counters[index].asked += cost }
        for index in narrow { counters[index].asked += cost }
        if let last = runs.last, last.cost == request.cost, last.group == group, last.waits == waits {
            runs[runs.count - 1].count += request.count
        } else {
            runs.append(Run(count: request.count, cost: request.cost, waits: waits, group: group))
        }
    }

    private mutating func group(of subject: String?) -> Int {
        guard let subject, !perSubject.isEmpty else { return 0 }
        let known = groups.count
        let group = Self.number(&groups[ExactText(subject), default: known + 1])
        if group > known {
            for index in perSubject { counters.append(Counter(definition: index, subject: subject)) }
        }
        return group
    }

    /// Of an entry that is made where there is none: looked up once.
    private static func number(_ entry: inout Int) -> Int { entry }
}
