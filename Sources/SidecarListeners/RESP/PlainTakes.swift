internal import Glibc
internal import Interlock

/// Adjacent plain takes (`LIMIT.TAKE service` without options) of one client. Adjacent takes from the same service
/// become one call.
struct PlainTakes {
    /// Consecutive takes from the limits of one service.
    struct Run {
        var service: ServiceReference
        /// The tag of the first take.
        var tag: UInt64
        var count: Int

        /// The tag after the last take.
        var end: UInt64 { tag &+ UInt64(count) }
    }

    private var run: Run?

    /// Adds a take to the current run, or starts a new one.
    /// - Returns: the run that this take ends, if any, which the caller must submit.
    mutating func append(_ service: ServiceReference, tag: UInt64) -> Run? {
        guard let last = run, last.service == service, last.end == tag else {
            let previousRun = run
            run = Run(service: service, tag: tag, count: 1)
            return previousRun
        }
        run?.count += 1
        return nil
    }

    /// Adds up to `limit` byte-for-byte repeats that follow the take with this tag, as in a pipeline. They need no
    /// parsing.
    /// - Parameter bytes: the input, starting with the parsed command, which is `length` bytes long.
    /// - Returns: the number of repeats; 0 if the command was not a plain take.
    mutating func appendRepeats(of tag: UInt64, length: Int, in bytes: UnsafeRawBufferPointer, limit: Int) -> Int {
        guard let last = run, last.end == tag &+ 1, let start = bytes.baseAddress else { return 0 }
        var repeatCount = 0
        while repeatCount < limit, bytes.count >= (repeatCount + 2) * length,
            memcmp(start, start + (repeatCount + 1) * length, length) == 0
        {
            repeatCount += 1
        }
        run?.count += repeatCount
        return repeatCount
    }

    /// Removes and returns the current run, which the caller must submit.
    mutating func remove() -> Run? {
        defer { run = nil }
        return run
    }
}
