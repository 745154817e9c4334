/// The reply of redis-cell.
package struct ThrottleResult: Hashable, Sendable {
    package var isLimited: Bool
    /// The maximum amount that can be taken at once.
    package var limit: Int64
    /// The amount that is left.
    package var remaining: Int64
    /// Seconds until the same call could be granted, rounded up; -1 if it was granted or never can be.
    package var retryAfterSeconds: Int64
    /// Seconds until the full limit is available again, rounded up.
    package var resetAfterSeconds: Int64

    package init(isLimited: Bool, limit: Int64, remaining: Int64, retryAfterSeconds: Int64, resetAfterSeconds: Int64) {
        self.isLimited = isLimited
        self.limit = limit
        self.remaining = remaining
        self.retryAfterSeconds = retryAfterSeconds
        self.resetAfterSeconds = resetAfterSeconds
    }
}
