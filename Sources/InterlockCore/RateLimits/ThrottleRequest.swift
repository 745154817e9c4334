/// A wish to take from a rate that the caller names with each call, as `CL.THROTTLE` of redis-cell does.
public struct ThrottleRequest: Hashable, Sendable {
    public static let bursts: ClosedRange<Int64> = 0...LimitDefinition.largestBurst
    public static let counts: ClosedRange<Int64> = 1...LimitDefinition.largestSmoothLimit
    /// In seconds: up to a year.
    public static let periods: ClosedRange<Int64> = 1...(366 * 86_400)
    public static let quantities: ClosedRange<Int64> = 0...LimitRequest.costs.upperBound

    public let key: ResourceName
    public let rate: CellRate
    /// How much is taken; 0 only looks.
    public let quantity: Int64

    /// At most `maximumBurst` + 1 at once, and `count` in each `period` seconds; each within its bounds.
    /// - Returns: `nil`: it would take more than a hundred years until the burst is there again.
    public init?(key: ResourceName, maximumBurst: Int64, count: Int64, period: Int64, quantity: Int64 = 1) {
        precondition(Self.bursts.contains(maximumBurst) && Self.counts.contains(count), "out of bounds")
        precondition(Self.periods.contains(period) && Self.quantities.contains(quantity), "out of bounds")
        rate = CellRate(limit: count, windowMicroseconds: period * 1_000_000, capacity: maximumBurst + 1)
        guard rate.isExact else { return nil }
        self.key = key
        self.quantity = quantity
    }
}

/// What redis-cell answers.
public struct ThrottleAnswer: Hashable, Sendable {
    public var isLimited: Bool
    /// The most at once.
    public var limit: Int64
    /// What is left of it.
    public var remaining: Int64
    /// When the same call could be granted, in seconds rounded up; -1 when it was, and when it never can be.
    public var retryAfterSeconds: Int64
    /// When all of it is there again, in seconds rounded up.
    public var resetAfterSeconds: Int64

    public init(isLimited: Bool, limit: Int64, remaining: Int64, retryAfterSeconds: Int64, resetAfterSeconds: Int64) {
        self.isLimited = isLimited
        self.limit = limit
        self.remaining = remaining
        self.retryAfterSeconds = retryAfterSeconds
        self.resetAfterSeconds = resetAfterSeconds
    }
}
