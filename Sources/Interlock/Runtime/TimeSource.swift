internal import Glibc
package import InterlockCore
internal import RedisClient

/// The monotonic clock that decisions use.
package struct TimeSource: Sendable {
    private let read: @Sendable () -> Instant

    package init(read: @escaping @Sendable () -> Instant) {
        self.read = read
    }

    /// The clock of `ContinuousClock`, which is monotonic and advances while the machine is suspended.
    package static let system = TimeSource {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    package func now() -> Instant { read() }
}
