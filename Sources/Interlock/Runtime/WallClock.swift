internal import Glibc

/// Reads the clock that people read, which may jump: for what is shown to them, never for what is decided.
package struct WallClock: Sendable {
    private let read: @Sendable () -> Int64

    /// - Parameter read: milliseconds since 1970, UTC.
    package init(read: @escaping @Sendable () -> Int64) {
        self.read = read
    }

    /// This host's clock.
    package static let system = WallClock {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Milliseconds since 1970, UTC.
    package func milliseconds() -> Int64 { read() }
}
