public import InterlockCore
internal import NIOConcurrencyHelpers

/// A clock that stands still until a test moves it. Hand `{ time.now }` to whatever reads a clock.
public final class ManualTime: Sendable {
    private let instant: NIOLockedValueBox<Instant>

    /// A clock that shows `start`. Not zero by default, so that code that takes zero for "never" is found out.
    public init(start: Instant = Instant(nanoseconds: 1_000_000_000_000)) {
        instant = NIOLockedValueBox(start)
    }

    /// What the clock shows.
    public var now: Instant {
        instant.withLockedValue { $0 }
    }

    /// Moves the clock; a negative number moves it back.
    public func advance(byMilliseconds milliseconds: Int64) {
        instant.withLockedValue { $0 = $0.advanced(byMilliseconds: milliseconds) }
    }
}
