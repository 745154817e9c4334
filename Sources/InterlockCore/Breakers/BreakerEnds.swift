/// The ends of a breaker's states as one sidecar knows them, which the sidecar sends to the script.
package struct BreakerEnds: Hashable, Sendable {
    /// One end. The numbers are Unix times in milliseconds by the Redis clock.
    package struct End: Hashable, Sendable {
        /// The number that Redis stores.
        package var number: Int64
        /// The number that Redis should store; `nil` if `number` is right.
        package var correction: Int64?
        /// Whether the end has come, by the sidecar's clock.
        package var isOver: Bool

        init?(_ end: SharedEnd, now: Instant) {
            guard end.number > 0 else { return nil }
            number = end.number
            correction = end.correction
            isOver = end.isOver(now: now)
        }
    }

    /// The end of the open state; `nil` if it has no end.
    package var open: End?
    /// The end of the forced state; `nil` if it has no end.
    package var forced: End?

    package init(open: End? = nil, forced: End? = nil) {
        self.open = open
        self.forced = forced
    }
}
