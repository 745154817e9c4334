/// A request to take from a rate that each call specifies, like `CL.THROTTLE` of redis-cell.
package struct ThrottleRequest: Hashable, Sendable {
    package static let burstRange: ClosedRange<Int64> = 0...LimitDefinition.maximumBurst
    package static let countRange: ClosedRange<Int64> = 1...LimitDefinition.maximumGCRALimit
    /// The allowed periods in seconds: up to a year.
    package static let periodSecondsRange: ClosedRange<Int64> = 1...(366 * 86_400)
    package static let quantityRange: ClosedRange<Int64> = 0...LimitRequest.costRange.upperBound

    package let key: ResourceName
    package let rate: CellRate
    /// The amount to take; 0 only reads.
    package let quantity: Int64

    /// Creates a request to take from a rate of `count` in each period, and at most `maximumBurst` + 1 at once. Each
    /// argument must be in its range.
    /// - Parameter periodSeconds: the period in seconds.
    /// - Returns: `nil` if the burst would take more than a hundred years to refill.
    package init?(
        key: ResourceName, maximumBurst: Int64, count: Int64, period periodSeconds: Int64, quantity: Int64 = 1
    ) {
        precondition(Self.burstRange.contains(maximumBurst) && Self.countRange.contains(count), "out of range")
        precondition(Self.periodSecondsRange.contains(periodSeconds) && Self.quantityRange.contains(quantity), "out of range")
        rate = CellRate(limit: count, windowMicroseconds: periodSeconds * 1_000_000, capacity: maximumBurst + 1)
        guard rate.isExact else { return nil }
        self.key = key
        self.quantity = quantity
    }
}
