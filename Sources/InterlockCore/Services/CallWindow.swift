/// The number of proxied calls that may be in flight concurrently without making the ticks of their event loop too
/// long. Locks and limits run on the same loop and wait for its next tick.
///
/// The window shrinks by a fraction under load and grows otherwise, as in TCP's congestion control (Jacobson, 1988).
/// Delay signals the load before anything is lost, as in TCP Vegas (Brakmo and Peterson, 1994). Calls that wait for a
/// slow service take no time of the loop, so the window grows beyond them while ticks are short.
package struct CallWindow: Sendable {
    /// The length of a tick, in nanoseconds, above which the window shrinks. It grows with ticks shorter than half of
    /// that.
    package static let longTick: Int64 = 500_000
    package static let minimumSize = 4
    package static let maximumSize = 1 << 14

    package private(set) var size = maximumSize

    package init() {}

    /// Adapts the window to the length of a tick, with the maximum number of calls in flight during it.
    package mutating func noteTick(nanoseconds: Int64, inFlight: Int) {
        if nanoseconds > Self.longTick {
            size = max(Self.minimumSize, min(size, inFlight) * 7 / 8)
        } else if nanoseconds < Self.longTick / 2 {
            size = min(Self.maximumSize, size + max(1, size / 8))
        }
    }
}
