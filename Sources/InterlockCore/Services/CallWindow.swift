/// How many of the proxy's calls may be under way at a time so that a turn of their event loop stays short: locks and limits live on the
/// same loop, and wait for it to come round.
///
/// A window that shrinks by a share when there is too much and grows while there is little is that of TCP's congestion control (Jacobson,
/// 1988); that delay says so, before anything is lost, is TCP Vegas' idea (Brakmo and Peterson, 1994). Calls that wait
/// for a slow service cost no time of the loop: while turns are short the window grows beyond them.
package struct CallWindow: Sendable {
    /// In nanoseconds: with longer turns the window shrinks, with turns of less than half of it grows.
    package static let longTurn: Int64 = 500_000
    package static let least = 4
    package static let most = 1 << 14

    package private(set) var size = most

    package init() {}

    /// A turn has taken so long, with so many calls under way at most.
    package mutating func noteTurn(nanoseconds: Int64, underWay: Int) {
        if nanoseconds > Self.longTurn {
            size = max(Self.least, min(size, underWay) * 7 / 8)
        } else if nanoseconds < Self.longTurn / 2 {
            size = min(Self.most, size + max(1, size / 8))
        }
    }
}
