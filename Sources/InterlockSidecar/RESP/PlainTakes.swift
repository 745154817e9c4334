internal import Glibc
internal import Interlock

/// Neighbouring plain takes of one client, `LIMIT.TAKE service` without more: those of one service are made as one call.
struct PlainTakes {
    /// Takes of one service whose commands came one after another.
    struct Run {
        var service: ServiceReference
        /// The first one's.
        var tag: UInt64
        var count: Int

        /// The tag of the command after them.
        var end: UInt64 { tag &+ UInt64(count) }
    }

    private var run: Run?

    /// Puts a take to those before it.
    /// - Returns: those that it cannot be put to: they are to be made now.
    mutating func append(_ service: ServiceReference, tag: UInt64) -> Run? {
        guard let last = run, last.service == service, last.end == tag else {
            let ended = run
            run = Run(service: service, tag: tag, count: 1)
            return ended
        }
        run?.count += 1
        return nil
    }

    /// Puts those to the take with this tag that repeat it byte for byte, as pipelines do: they need no parsing.
    /// - Parameters:
    ///   - bytes: begin with the command that was parsed, of so many bytes.
    ///   - most: how many may follow.
    /// - Returns: how many do; none when the command was no plain take.
    mutating func appendRepeats(of tag: UInt64, length: Int, in bytes: UnsafeRawBufferPointer, most: Int) -> Int {
        guard let last = run, last.end == tag &+ 1, let start = bytes.baseAddress else { return 0 }
        var repeats = 0
        while repeats < most, bytes.count >= (repeats + 2) * length,
            memcmp(start, start + (repeats + 1) * length, length) == 0
        {
            repeats += 1
        }
        run?.count += repeats
        return repeats
    }

    /// Takes out what is to be made now.
    mutating func remove() -> Run? {
        defer { run = nil }
        return run
    }
}
