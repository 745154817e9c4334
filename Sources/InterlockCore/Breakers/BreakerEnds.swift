/// The ends of a breaker's state as a sidecar knows them, for the script.
package struct BreakerEnds: Hashable, Sendable {
    package struct End: Hashable, Sendable {
        /// The number in Redis.
        package var number: Int64
        /// The number that Redis should have; `nil` if `number` is right.
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

    package var open: End?
    package var forced: End?

    package init(open: End? = nil, forced: End? = nil) {
        self.open = open
        self.forced = forced
    }
}
