package import InterlockCore
internal import NIOConcurrencyHelpers

/// A clock that only a test advances. Pass `{ time.now }` to code that reads a clock.
package final class ManualTime: Sendable {
    private let instant: NIOLockedValueBox<Instant>

    /// Creates a clock that shows `start`. The default is not zero, to catch code that treats zero as "never".
    package init(start: Instant = Instant(nanoseconds: 1_000_000_000_000)) {
        instant = NIOLockedValueBox(start)
    }

    /// The clock's time.
    package var now: Instant {
        instant.withLockedValue { $0 }
    }

    /// Moves the clock forward, or back if `milliseconds` is negative.
    package func advance(byMilliseconds milliseconds: Int64) {
        instant.withLockedValue { $0 = $0.advanced(byMilliseconds: milliseconds) }
    }
}
