/// The number of proxied calls that may be in flight concurrently without making the ticks of their event loop too
/// long. Calls to locks and limits run on the same loop and wait for its next tick.
///
/// The window shrinks by a fraction under load and grows otherwise, as in TCP's congestion control (Jacobson, 1988).
/// Long ticks signal the load before calls fail, as delay does in TCP Vegas (Brakmo and Peterson, 1994). Calls that
/// wait for a slow service take no time of the loop, so the window grows beyond their number while ticks are short.
package struct CallWindow: Sendable {
    /// The length of a tick, in nanoseconds, above which the window shrinks. The window grows with ticks shorter than
    /// half of that length.
    package static let longTickNanoseconds: Int64 = 500_000
    package static let minimumSize = 4
    package static let maximumSize = 1 << 14

    package private(set) var size = maximumSize

    package init() {}

    /// Adapts the window to the length of a tick.
    /// - Parameter inFlight: the maximum number of calls in flight during the tick.
    package mutating func recordTick(nanoseconds: Int64, inFlight: Int) {
        if nanoseconds > Self.longTickNanoseconds {
            size = max(Self.minimumSize, min(size, inFlight) * 7 / 8)
        } else if nanoseconds < Self.longTickNanoseconds / 2 {
            size = min(Self.maximumSize, size + max(1, size / 8))
        }
    }
}
