/// The result of a `ThrottleRequest`: the reply of `CL.THROTTLE`, as redis-cell defines it.
package struct ThrottleResult: Hashable, Sendable {
    package var isLimited: Bool
    /// The maximum amount that can be taken at once.
    package var limit: Int64
    /// The amount that is left.
    package var remaining: Int64
    /// The seconds until the same call can be granted, rounded up; -1 if it was granted or never can be.
    package var retryAfterSeconds: Int64
    /// The seconds until the full limit is available again, rounded up.
    package var resetAfterSeconds: Int64

    package init(isLimited: Bool, limit: Int64, remaining: Int64, retryAfterSeconds: Int64, resetAfterSeconds: Int64) {
        self.isLimited = isLimited
        self.limit = limit
        self.remaining = remaining
        self.retryAfterSeconds = retryAfterSeconds
        self.resetAfterSeconds = resetAfterSeconds
    }
}
