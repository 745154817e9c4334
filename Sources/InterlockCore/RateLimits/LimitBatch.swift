/// Requests that one script call evaluates in order: calls of one service, or descriptors of one domain.
///
/// Equal neighbors form one run, so the script's work grows with the number of runs and not with the number of
/// requests.
package struct LimitBatch: Sendable {
    /// The rule by which a request takes from its counters.
    package enum Mode: Int, Sendable {
        /// Takes from all of them or from none.
        case allOrNone
        /// Takes from each of them independently.
        case independent
        /// Takes from each of them, even if that one refuses it.
        case unconditional
    }

    /// One counter as the script sees it.
    package struct Counter: Equatable, Sendable {
        /// The index of its limit in `definitions`.
        package var definition: Int
        /// The subject of a per-subject limit, or the path of a descriptor; `nil` for a limit of the whole service.
        package var name: String?
        package var isAligned = false
        /// The end of its fixed window, in milliseconds of the Redis clock; 0 if unknown.
        package var endsAt: Int64 = 0
        /// The total cost that all requests take from it, refunds excluded.
        package var requestedCost: Int64 = 0
    }

    /// The amount that a request takes from one counter; a negative cost is a refund.
    package struct Charge: Hashable, Sendable {
        package var counter: Int
        package var cost: Int64
    }

    /// Consecutive equal requests.
    package struct Run: Equatable, Sendable {
        package var count: Int
        package var charges: Range<Int>
        /// Whether refused requests wait. Later requests then cannot take from the counters that refused them.
        package var waits = false
    }

    /// Limits of a batch. Redis serves no other client during an evaluation, and a larger batch would take longer than
    /// some tens of milliseconds.
    static let maximumCounters = 2000
    static let maximumCharges = 8000

    package let mode: Mode
    package private(set) var definitions: [LimitDefinition]
    /// The indices of the definitions in the order of the script's keys: those that apply to every request, then those
    /// that repeat for each subject.
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

    /// - Parameters:
    ///   - shared: the indices of the definitions that apply to every request. Each gets its counter now.
    ///   - perSubject: the indices of the definitions that have counters per subject.
    init(mode: Mode = .allOrNone, definitions: [LimitDefinition] = [], shared: [Int] = [], perSubject: [Int] = []) {
        self.mode = mode
        self.definitions = definitions
        order = shared + perSubject
        sharedCount = shared.count
        counters = shared.map { Counter(definition: $0) }
    }

    package var perSubjectCount: Int { order.count - sharedCount }
    var isFull: Bool { counters.count >= Self.maximumCounters || charges.count >= Self.maximumCharges }

    package func definition(of counter: Int) -> LimitDefinition { definitions[counters[counter].definition] }
    func isShadow(_ counter: Int) -> Bool { definitions[counters[counter].definition].isShadow }

    mutating func reserveCapacity(of other: LimitBatch) {
        counters.reserveCapacity(other.counters.count)
        charges.reserveCapacity(other.charges.count)
        runs.reserveCapacity(other.runs.count)
    }

    /// Adds the counters of one more subject.
    mutating func appendSubject(_ name: String) {
        for definition in order[sharedCount...] { counters.append(Counter(definition: definition, name: name)) }
    }

    /// Adds a counter with its own limit. Returns its index.
    mutating func appendCounter(_ definition: LimitDefinition, name: String, isAligned: Bool) -> Int {
        order.append(definitions.count)
        sharedCount += 1
        counters.append(Counter(definition: definitions.count, name: name, isAligned: isAligned))
        definitions.append(definition)
        return counters.count - 1
    }

    /// Adds a charge to the run that the next `appendRun` closes. Returns its index.
    @discardableResult
    mutating func appendCharge(_ cost: Int64, to counter: Int) -> Int {
        charges.append(Charge(counter: counter, cost: cost))
        return charges.count - 1
    }

    mutating func raiseCharge(_ index: Int, by cost: Int64) { charges[index].cost += cost }

    /// Makes a run of the charges that were added since the last one.
    mutating func appendRun(count: Int, waits: Bool = false) {
        let first = runs.last?.charges.upperBound ?? 0
        runs.append(Run(count: 0, charges: first..<charges.count, waits: waits))
        extendLastRun(by: count)
    }

    mutating func extendLastRun(by count: Int) {
        runs[runs.count - 1].count += count
        for charge in charges[runs[runs.count - 1].charges] {
            if charge.cost < 0 { hasRefunds = true } else { counters[charge.counter].requestedCost += charge.cost * Int64(count) }
        }
    }

    /// Records the known ends of fixed windows.
    mutating func note(_ ends: WindowEnds) {
        for index in counters.indices where definitions[counters[index].definition].algorithm == .fixed {
            counters[index].endsAt = ends[counters[index]]
        }
    }
}
