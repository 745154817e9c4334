package import InterlockCore

/// What `breaker.lua` replies.
package struct BreakerReply: Hashable, Sendable {
    /// The call did what it asked for.
    package var isDone: Bool
    /// In milliseconds of the Unix epoch.
    package var redisTime: Int64
    package var snapshot: BreakerSnapshot
    /// The digest of the service's definition that the fleet had last; `nil`: not known.
    package var configuration: String?

    package init(isDone: Bool, redisTime: Int64, snapshot: BreakerSnapshot, configuration: String?) {
        self.isDone = isDone
        self.redisTime = redisTime
        self.snapshot = snapshot
        self.configuration = configuration
    }
}
