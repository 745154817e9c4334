/// Requests that one script call evaluates in order: calls of one service, or descriptors of one domain.
///
/// Consecutive equal requests form one run. The work of the script grows with the number of runs, not with the number
/// of requests.
package struct LimitBatch: Sendable {
    /// Which counters a request takes from if some of them refuse it.
    package enum Mode: Int, Sendable {
        /// Takes from all of them, or takes nothing.
        case allOrNone
        /// Takes from each of them independently.
        case independent
        /// Takes from each of them, even from a counter that refuses the request.
        case unconditional
    }

    /// One counter as the script sees it.
    package struct Counter: Equatable, Sendable {
        /// The index of its limit in `definitions`.
        package var definitionIndex: Int
        /// The subject of a per-subject limit, or the path of a descriptor; `nil` for a limit of the whole service.
        package var name: String?
        /// Whether its windows begin at multiples of their length, by the Redis clock, and not with their first call.
        package var isAligned = false
        /// The end of its fixed window, as Unix time in milliseconds by the Redis clock; 0 if unknown.
        package var endsAtMilliseconds: Int64 = 0
        /// The total cost that all requests take from it, refunds excluded.
        package var requestedCost: Int64 = 0
    }

    /// The amount that a request takes from one counter; a negative cost is a refund.
    package struct Charge: Hashable, Sendable {
        /// The index of the counter in the batch.
        package var counterIndex: Int
        package var cost: Int64
    }

    /// Consecutive equal requests.
    package struct Run: Equatable, Sendable {
        /// The number of requests.
        package var count: Int
        /// The indices of the charges that each request makes.
        package var charges: Range<Int>
        /// Whether refused requests wait. Later requests cannot overtake them at the counters that refused them.
        package var waits = false
    }

    /// The maximum number of counters in a batch. Redis serves no other client while the script runs, and a larger
    /// batch would take longer than some tens of milliseconds.
    static let maximumCounters = 2000
    /// The maximum number of charges in a batch, for the same reason.
    static let maximumCharges = 8000

    package let mode: Mode
    package private(set) var definitions: [LimitDefinition]
    /// The indices of the definitions in the order of the script's keys: first those that apply to every request, then
    /// those that have a counter for each subject.
    package private(set) var order: [Int]
    /// The number of definitions in `order` that apply to every request.
    package private(set) var sharedCount: Int
    /// The counters in the order of the script's keys.
    package private(set) var counters: [Counter]
    /// The charges of all runs, one run after the other.
    package private(set) var charges: [Charge] = []
    package private(set) var runs: [Run] = []
    /// Whether any charge is a refund.
    package private(set) var hasRefunds = false

    /// Creates an empty batch.
    /// - Parameters:
    ///   - shared: the indices of the definitions that apply to every request. The batch has their counters from the
    ///     start.
    ///   - perSubject: the indices of the definitions that have a counter for each subject.
    init(mode: Mode = .allOrNone, definitions: [LimitDefinition] = [], shared: [Int] = [], perSubject: [Int] = []) {
        self.mode = mode
        self.definitions = definitions
        order = shared + perSubject
        sharedCount = shared.count
        counters = shared.map { Counter(definitionIndex: $0) }
    }

    package var perSubjectCount: Int { order.count - sharedCount }
    var isFull: Bool { counters.count >= Self.maximumCounters || charges.count >= Self.maximumCharges }

    package func definition(of counter: Int) -> LimitDefinition { definitions[counters[counter].definitionIndex] }
    func isShadow(_ counter: Int) -> Bool { definitions[counters[counter].definitionIndex].isShadow }

    mutating func reserveCapacity(of other: LimitBatch) {
        counters.reserveCapacity(other.counters.count)
        charges.reserveCapacity(other.charges.count)
        runs.reserveCapacity(other.runs.count)
    }

    /// Adds the counters of another subject.
    mutating func appendSubject(_ name: String) {
        for definition in order[sharedCount...] { counters.append(Counter(definitionIndex: definition, name: name)) }
    }

    /// Adds a counter with its own limit.
    /// - Returns: the index of the counter.
    mutating func appendCounter(_ definition: LimitDefinition, name: String, isAligned: Bool) -> Int {
        order.append(definitions.count)
        sharedCount += 1
        counters.append(Counter(definitionIndex: definitions.count, name: name, isAligned: isAligned))
        definitions.append(definition)
        return counters.count - 1
    }

    /// Adds a charge to the run that the next `appendRun` completes.
    /// - Returns: the index of the charge.
    @discardableResult
    mutating func appendCharge(_ cost: Int64, to counter: Int) -> Int {
        charges.append(Charge(counterIndex: counter, cost: cost))
        return charges.count - 1
    }

    mutating func raiseCharge(_ index: Int, by cost: Int64) { charges[index].cost += cost }

    /// Makes a run of the charges that were added since the last run.
    mutating func appendRun(count: Int, waits: Bool = false) {
        let start = runs.last?.charges.upperBound ?? 0
        runs.append(Run(count: 0, charges: start..<charges.count, waits: waits))
        extendLastRun(by: count)
    }

    mutating func extendLastRun(by count: Int) {
        runs[runs.count - 1].count += count
        for charge in charges[runs[runs.count - 1].charges] {
            if charge.cost < 0 {
                hasRefunds = true
            } else {
                counters[charge.counterIndex].requestedCost += charge.cost * Int64(count)
            }
        }
    }

    /// Records the known ends of fixed windows.
    mutating func record(_ ends: WindowEnds) {
        for index in counters.indices where definitions[counters[index].definitionIndex].algorithm == .fixed {
            counters[index].endsAtMilliseconds = ends[counters[index]]
        }
    }
}
