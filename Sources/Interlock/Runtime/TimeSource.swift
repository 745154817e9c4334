internal import Glibc
package import InterlockCore
internal import RedisClient

/// Reads the clock that decisions are handed.
package struct TimeSource: Sendable {
    private let read: @Sendable () -> Instant

    package init(read: @escaping @Sendable () -> Instant) {
        self.read = read
    }

    /// The clock that `ContinuousClock` reads: monotonic, and it counts the time the machine was suspended.
    package static let system = TimeSource {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    package func now() -> Instant { read() }
}
