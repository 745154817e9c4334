internal import Glibc

/// Reads the wall clock, which may jump. Its times are only shown, never used for decisions.
package struct WallClock: Sendable {
    private let read: @Sendable () -> Int64

    /// Creates a clock.
    /// - Parameter read: returns Unix time in milliseconds.
    package init(read: @escaping @Sendable () -> Int64) {
        self.read = read
    }

    /// The clock of this host.
    package static let system = WallClock {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Returns Unix time in milliseconds.
    package func milliseconds() -> Int64 { read() }
}
