/// What a limit decided about one call, and about the window that binds.
public struct LimitAnswer: Hashable, Sendable {
    /// `nil`: taken. Otherwise how many milliseconds to wait before the same call could be granted;
    /// `neverSatisfiable` when its cost is above the limit.
    public var retryAfter: Int64?
    /// The binding limit's bound.
    public var limit: Int64
    /// What is left in the binding window.
    public var remaining: Int64
    /// Milliseconds until the binding window is whole again.
    public var resetAfter: Int64
    /// Which of the service's limits binds.
    public var limitIndex: Int

    /// The `retryAfter` of a call that no wait can help.
    public static let neverSatisfiable: Int64 = -1

    public init(retryAfter: Int64?, limit: Int64, remaining: Int64, resetAfter: Int64, limitIndex: Int) {
        self.retryAfter = retryAfter
        self.limit = limit
        self.remaining = remaining
        self.resetAfter = resetAfter
        self.limitIndex = limitIndex
    }

    public var isTaken: Bool { retryAfter == nil }
}
