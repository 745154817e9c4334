/// The requests of one domain that travel together: one script judges them in order. Equal neighbours are one run, so that the script's
/// work grows with their variety and not with their number.
package struct DescriptorBatch: Sendable {
    /// One counter as the script sees it.
    package struct Counter: Sendable {
        package var name: String
        package var limit: LimitDefinition
        package var isAligned: Bool
        package var isShadow: Bool
        /// What all requests ask of it together, what they give back left out.
        package var asked: Int64 = 0
    }

    /// What a request takes of one counter.
    package struct Charge: Hashable, Sendable {
        package var counter: Int
        package var cost: Int64
    }

    /// Requests in a row that ask for the same.
    package struct Run: Sendable {
        package var count: Int
        package var charges: Range<Int>
        /// Of each descriptor of such a request, its place in `charges`; `nil`: it is not asked about.
        package var chargeOfItem: [Int?]
    }

    /// One request, and which of its descriptors are asked about.
    package struct Request: Sendable {
        package var id: Int
        package var plan: DescriptorPlan
        /// When it came.
        package var at: Instant
    }

    private struct CounterID: Hashable {
        var name: ExactText
        var limit: ExactText
    }

    /// With so many counters or charges it is full: Redis answers nobody else while it judges, and a larger one would take it longer
    /// than some tens of milliseconds.
    package static let mostCounters = 2000
    private static let mostCharges = 8000

    package let isIndependent: Bool
    package let countsRefused: Bool
    /// In the order of the script's keys.
    package private(set) var counters: [Counter] = []
    /// Those of one run follow one another.
    package private(set) var charges: [Charge] = []
    package private(set) var runs: [Run] = []
    package private(set) var requests: [Request] = []
    /// Something is given back.
    package private(set) var givesBack = false
    /// Which of its limiter's batches it is.
    var number: UInt64 = 0
    /// Its requests have been answered without a verdict.
    var isOverdue = false
    private var places: [CounterID: Int] = [:]
    /// The last run's plan, of which the next request's may be another.
    private var lastPlan: DescriptorPlan?

    init(isIndependent: Bool, countsRefused: Bool) {
        self.isIndependent = isIndependent
        self.countsRefused = countsRefused
    }

    package var isEmpty: Bool { requests.isEmpty }

    /// Takes a request in. `false`: it does not fit, and travels with the next batch.
    mutating func append(_ request: Request) -> Bool {
        let plan = request.plan
        if plan == lastPlan {
            runs[runs.count - 1].count += 1
            for charge in charges[runs[runs.count - 1].charges] where charge.cost > 0 {
                counters[charge.counter].asked += charge.cost
            }
            requests.append(request)
            return true
        }
        guard isEmpty || hasRoom(for: plan) else { return false }
        let first = charges.count
        var isPlain = true
        let chargeOfItem = plan.items.map { item -> Int? in
            guard let asked = item.charge else { return nil }
            let counter = place(of: asked)
            if asked.cost > 0 { counters[counter].asked += asked.cost } else if asked.cost < 0 { givesBack = true }
            // Two of one request: each for itself, or together as all of the request is.
            if let known = charges[first...].firstIndex(where: { $0.counter == counter }) {
                isPlain = false
                if !isIndependent {
                    charges[known].cost += asked.cost
                    return known
                }
            }
            charges.append(Charge(counter: counter, cost: asked.cost))
            return charges.count - 1
        }
        runs.append(Run(count: 1, charges: first..<charges.count, chargeOfItem: chargeOfItem))
        requests.append(request)
        lastPlan = isPlain ? plan : nil
        return true
    }

    private func hasRoom(for plan: DescriptorPlan) -> Bool {
        let asked = plan.items.lazy.compactMap(\.charge)
        guard counters.count + plan.items.count <= Self.mostCounters, charges.count + plan.items.count <= Self.mostCharges else {
            return false
        }
        // Two definitions of one counter are not judged together.
        return asked.allSatisfy { charge in
            guard let known = places[Self.id(of: charge)] else { return true }
            return counters[known].limit == charge.limit && counters[known].isAligned == charge.isAligned
                && counters[known].isShadow == charge.isShadow
        }
    }

    private static func id(of charge: DescriptorPlan.Charge) -> CounterID {
        CounterID(name: charge.counter, limit: ExactText(charge.limit.name))
    }

    private mutating func place(of charge: DescriptorPlan.Charge) -> Int {
        let id = Self.id(of: charge)
        if let known = places[id] { return known }
        counters.append(
            Counter(name: charge.counter.text, limit: charge.limit, isAligned: charge.isAligned, isShadow: charge.isShadow))
        places[id] = counters.count - 1
        return counters.count - 1
    }
}

/// How a batch was judged, by the script or by this sidecar's own counters.
package struct DescriptorVerdict: Sendable, Equatable {
    /// What one counter had room for of a run.
    package struct Fit: Hashable, Sendable {
        /// How many of the run's requests: its first ones.
        package var count: Int
        /// In how many microseconds one of the rest could be granted; meaningless when all fit.
        package var retryAfterMicroseconds: Int64

        package init(count: Int, retryAfterMicroseconds: Int64 = 0) {
            self.count = count
            self.retryAfterMicroseconds = retryAfterMicroseconds
        }
    }

    /// Redis' time when it judged, in microseconds of the Unix epoch; 0 when Redis did not.
    package var timeMicroseconds: Int64
    package var counters: [LimitVerdict.Counter]
    /// Of each charge of the batch; none at all: everything fits.
    package var fits: [Fit]

    package init(timeMicroseconds: Int64, counters: [LimitVerdict.Counter], fits: [Fit]) {
        self.timeMicroseconds = timeMicroseconds
        self.counters = counters
        self.fits = fits
    }

    /// Everything fits and nothing was counted.
    package static func allGranted(_ batch: DescriptorBatch) -> DescriptorVerdict {
        DescriptorVerdict(
            timeMicroseconds: 0,
            counters: batch.counters.map { counter in
                LimitVerdict.Counter(count: 0, capacity: counter.limit.capacity, resetAfter: counter.limit.windowMilliseconds)
            },
            fits: [])
    }

    /// Nothing fits and nothing was counted.
    package static func noneGranted(_ batch: DescriptorBatch) -> DescriptorVerdict {
        DescriptorVerdict(
            timeMicroseconds: 0, counters: batch.counters.map { _ in .init(count: 0, capacity: 0, resetAfter: 0) },
            fits: batch.charges.map { _ in Fit(count: 0) })
    }
}
