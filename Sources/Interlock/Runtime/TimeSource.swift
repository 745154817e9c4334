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

/// Reads the clock that people read, which may jump: for what is shown to them, never for what is decided.
public struct WallClock: Sendable {
    private let read: @Sendable () -> Int64

    /// - Parameter read: milliseconds since 1970, UTC.
    public init(read: @escaping @Sendable () -> Int64) {
        self.read = read
    }

    /// This host's clock.
    public static let system = WallClock {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Milliseconds since 1970, UTC.
    public func milliseconds() -> Int64 { read() }
}
