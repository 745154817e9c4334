internal import Glibc
public import InterlockCore

/// Reads the clock that decisions are handed.
public struct TimeSource: Sendable {
    private let read: @Sendable () -> Instant

    public init(read: @escaping @Sendable () -> Instant) {
        self.read = read
    }

    /// The clock that `ContinuousClock` reads: monotonic, and it counts the time the machine was suspended.
    public static let system = TimeSource {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    public func now() -> Instant { read() }
}
