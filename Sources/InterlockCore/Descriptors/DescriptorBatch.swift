/// The requests of one domain that are evaluated together.
package struct DescriptorBatch: Sendable {
    /// A request and the descriptors that the script decides.
    package struct Request: Sendable {
        package var id: Int
        package var plan: DescriptorPlan
        /// The time of arrival.
        package var at: Instant
    }

    private struct CounterID: Hashable {
        var name: ExactText
        var limit: ExactText
    }

    package private(set) var limits: LimitBatch
    package private(set) var requests: [Request] = []
    /// The index in `limits.charges` of each descriptor, by run; `nil` if the script does not decide it.
    private(set) var chargeOfItem: [[Int?]] = []
    /// The number of this batch among those of its limiter.
    var number: UInt64 = 0
    /// Whether its requests have been answered without a verdict.
    var isOverdue = false
    private var indices: [CounterID: Int] = [:]
    /// The plan of the last run, which the next request may repeat.
    private var lastPlan: DescriptorPlan?

    init(mode: LimitBatch.Mode) { limits = LimitBatch(mode: mode) }

    package var isEmpty: Bool { requests.isEmpty }

    /// Appends a request. Returns `false` if it does not fit and has to go into the next batch.
    mutating func append(_ request: Request) -> Bool {
        let plan = request.plan
        if plan == lastPlan {
            limits.extendLastRun(by: 1)
            requests.append(request)
            return true
        }
        guard isEmpty || hasCapacity(for: plan) else { return false }
        let first = limits.charges.count
        var repeatsCounter = false
        chargeOfItem.append(
            plan.items.map { item in
                guard let asked = item.charge else { return nil }
                let counter = index(of: asked)
                // Two descriptors with the same counter share one charge if the request takes from all counters or from
                // none.
                if let known = limits.charges[first...].firstIndex(where: { $0.counter == counter }) {
                    repeatsCounter = true
                    if limits.mode == .allOrNone {
                        limits.raiseCharge(known, by: asked.cost)
                        return known
                    }
                }
                return limits.appendCharge(asked.cost, to: counter)
            })
        limits.appendRun(count: 1)
        requests.append(request)
        lastPlan = repeatsCounter ? nil : plan
        return true
    }

    private func hasCapacity(for plan: DescriptorPlan) -> Bool {
        guard limits.counters.count + plan.items.count <= LimitBatch.maximumCounters,
            limits.charges.count + plan.items.count <= LimitBatch.maximumCharges
        else { return false }
        // One batch cannot use two definitions of one counter.
        return plan.items.lazy.compactMap(\.charge).allSatisfy { charge in
            guard let known = indices[Self.id(of: charge)] else { return true }
            let counter = limits.counters[known]
            return limits.definitions[counter.definition] == charge.limit && counter.isAligned == charge.isAligned
        }
    }

    private static func id(of charge: DescriptorPlan.Charge) -> CounterID {
        CounterID(name: charge.counter, limit: ExactText(charge.limit.name))
    }

    private mutating func index(of charge: DescriptorPlan.Charge) -> Int {
        let id = Self.id(of: charge)
        if let known = indices[id] { return known }
        let index = limits.appendCounter(charge.limit, name: charge.counter.text, isAligned: charge.isAligned)
        indices[id] = index
        return index
    }
}
