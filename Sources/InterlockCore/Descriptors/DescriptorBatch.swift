/// The requests of one domain that are evaluated together.
package struct DescriptorBatch: Sendable {
    /// A request, with the descriptors on which the script decides.
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
    /// For each run, the index in `limits.charges` of each descriptor's charge; `nil` if the script does not decide on
    /// the descriptor.
    private(set) var chargeOfItem: [[Int?]] = []
    /// The number that identifies the batch in its limiter.
    var number: UInt64 = 0
    /// Whether the requests have been answered without a verdict.
    var isOverdue = false
    private var counterIndices: [CounterID: Int] = [:]
    /// The plan of the last run, which the next request may repeat.
    private var lastPlan: DescriptorPlan?

    init(mode: LimitBatch.Mode) { limits = LimitBatch(mode: mode) }

    package var isEmpty: Bool { requests.isEmpty }

    /// Appends a request. Returns `false` if the request does not fit and must join the next batch.
    mutating func append(_ request: Request) -> Bool {
        let plan = request.plan
        if plan == lastPlan {
            limits.extendLastRun(by: 1)
            requests.append(request)
            return true
        }
        guard isEmpty || hasCapacity(for: plan) else { return false }
        let firstCharge = limits.charges.count
        var repeatsCounter = false
        chargeOfItem.append(
            plan.items.map { item in
                guard let charge = item.charge else { return nil }
                let counterIndex = index(of: charge)
                // If a request takes from all counters or takes nothing, two descriptors with the same counter share
                // one charge.
                if let chargeIndex = limits.charges[firstCharge...].firstIndex(where: {
                    $0.counterIndex == counterIndex
                }) {
                    repeatsCounter = true
                    if limits.mode == .allOrNone {
                        limits.raiseCharge(chargeIndex, by: charge.cost)
                        return chargeIndex
                    }
                }
                return limits.appendCharge(charge.cost, to: counterIndex)
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
            guard let index = counterIndices[Self.id(of: charge)] else { return true }
            let counter = limits.counters[index]
            return limits.definitions[counter.definitionIndex] == charge.limit && counter.isAligned == charge.isAligned
        }
    }

    private static func id(of charge: DescriptorPlan.Charge) -> CounterID {
        CounterID(name: charge.counter, limit: ExactText(charge.limit.name))
    }

    /// Returns the index of the charge's counter, and adds the counter if it is new.
    private mutating func index(of charge: DescriptorPlan.Charge) -> Int {
        let id = Self.id(of: charge)
        if let index = counterIndices[id] { return index }
        let index = limits.appendCounter(charge.limit, name: charge.counter.text, isAligned: charge.isAligned)
        counterIndices[id] = index
        return index
    }
}
