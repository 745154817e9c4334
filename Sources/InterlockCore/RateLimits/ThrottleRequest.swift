/// A request to take from a rate that the caller specifies in each call, like `CL.THROTTLE` of redis-cell.
package struct ThrottleRequest: Hashable, Sendable {
    package static let bursts: ClosedRange<Int64> = 0...LimitDefinition.maximumBurst
    package static let counts: ClosedRange<Int64> = 1...LimitDefinition.maximumGCRALimit
    /// The allowed periods in seconds: up to a year.
    package static let periods: ClosedRange<Int64> = 1...(366 * 86_400)
    package static let quantities: ClosedRange<Int64> = 0...LimitRequest.costs.upperBound

    package let key: ResourceName
    package let rate: CellRate
    /// The amount to take; 0 only reads.
    package let quantity: Int64

    /// Creates a request for at most `maximumBurst` + 1 at once, and `count` in each `period` seconds. Each argument
    /// must be in its range.
    /// - Returns: `nil` if the burst would take more than a hundred years to refill.
    package init?(key: ResourceName, maximumBurst: Int64, count: Int64, period: Int64, quantity: Int64 = 1) {
        precondition(Self.bursts.contains(maximumBurst) && Self.counts.contains(count), "out of range")
        precondition(Self.periods.contains(period) && Self.quantities.contains(quantity), "out of range")
        rate = CellRate(limit: count, windowMicroseconds: period * 1_000_000, capacity: maximumBurst + 1)
        guard rate.isExact else { return nil }
        self.key = key
        self.quantity = quantity
    }
}
