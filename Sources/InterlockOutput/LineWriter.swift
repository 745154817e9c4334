internal import Dispatch
internal import Glibc
internal import InterlockCore
internal import NIOConcurrencyHelpers

/// Writes lines to a descriptor in order. Writes on its own queue, so that a pipe that nobody reads blocks only the
/// queue.
///
/// Sidecars and long-running commands write all output with it. Lines beyond the backlog's limit are dropped and
/// counted.
package final class LineWriter: Sendable {
    fileprivate struct State {
        var backlog = LineBacklog(limit: LineWriter.limit)
        /// Whether the queue is writing. If so, it also writes lines that are added meanwhile.
        var isWriting = false
        /// Whether the last flush timed out and nothing has been written since.
        var isStuck = false
        /// Whether the last write failed, as it does after the reader of a pipe has closed it.
        var lastWriteFailed = false
        var report: @Sendable (Int) -> String = { count in
            "interlock: dropped \(count) \(count == 1 ? "line" : "lines") because the output was not read"
        }
        var onDrop: @Sendable () -> Void = {}
    }

    package static let standardOutput = LineWriter(STDOUT_FILENO)
    package static let standardError = LineWriter(STDERR_FILENO)

    /// The maximum number of bytes that wait for a descriptor.
    package static let limit = 1 << 20

    private let descriptor: Int32
    private let queue: DispatchQueue
    private let state = NIOLockedValueBox(State())

    /// - Parameter descriptor: a descriptor that stays open until the process exits.
    package init(_ descriptor: Int32) {
        self.descriptor = descriptor
        queue = DispatchQueue(label: "interlock.lines.\(descriptor)")
    }

    /// Sets the handlers for dropped lines.
    /// - Parameters:
    ///   - report: returns the line that replaces this number of dropped lines.
    ///   - onDrop: called for each line that is dropped or cannot be written.
    package func reportDrops(as report: @escaping @Sendable (Int) -> String, onDrop: @escaping @Sendable () -> Void) {
        state.withLockedValue { state in
            state.report = report
            state.onDrop = onDrop
        }
    }

    /// Adds a line to be written soon. Never waits.
    package func add(_ line: String) { add(bytes: Array((line + "\n").utf8)) }

    /// Adds bytes that need not end with a line break, such as a progress line that is overwritten.
    package func add(bytes: [UInt8]) {
        let (dropped, isIdle) = state.withLockedValue { state -> ((@Sendable () -> Void)?, Bool) in
            let isAccepted = state.backlog.add(bytes, report: Self.line(state.report))
            defer { state.isWriting = true }
            return (isAccepted ? nil : state.onDrop, !state.isWriting)
        }
        dropped?()
        if isIdle { queue.async { self.write() } }
    }

    /// Adds a line and waits until it is written, for at most `timeout`, so that it precedes the next output of another
    /// process or descriptor. While the descriptor is blocked, only the first call waits.
    package func add(_ line: String, waiting timeout: Duration) {
        add(line)
        guard !state.withLockedValue({ $0.isStuck }) else { return }
        flush(within: timeout)
    }

    /// Adds a line, and suspends the task until everything added before has been written.
    /// - Returns: `false` if the latest write failed or the task was cancelled. A line that the full backlog drops
    ///   counts as written.
    package func write(_ line: String) async -> Bool {
        add(line)
        let (written, continuation) = AsyncStream<Void>.makeStream()
        queue.async { continuation.yield() }
        for await _ in written { return !state.withLockedValue { $0.lastWriteFailed } }
        return false
    }

    /// Whether lines are waiting to be written.
    package var isBusy: Bool { state.withLockedValue { $0.isWriting } }

    /// Waits until everything added so far is written, for at most `limit`. Must not be called on an event loop.
    package func flush(within limit: Duration) {
        let written = DispatchSemaphore(value: 0)
        queue.async { written.signal() }
        let timeout = DispatchTimeInterval.milliseconds(Int(clamping: limit.wholeMilliseconds))
        let isLate = written.wait(timeout: .now() + timeout) == .timedOut
        state.withLockedValue { $0.isStuck = isLate }
    }

    /// Writes until the backlog is empty. Runs on the queue.
    private func write() {
        while let line = state.withLockedValue({ $0.next() }) {
            let isWritten = Self.write(line, to: descriptor)
            let dropped = state.withLockedValue { state in
                state.isStuck = false
                state.lastWriteFailed = !isWritten
                return isWritten ? nil : state.onDrop
            }
            dropped?()
        }
    }

    /// - Returns: whether all bytes were written.
    private static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        bytes.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                // Write the line with one call if possible, so that it does not mix with those of other processes.
                let count = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count > 0 {
                    rest = rest.dropFirst(count)
                } else if count < 0, errno == EAGAIN {
                    // Another process may have made the descriptor non-blocking, which affects all that share it.
                    var writable = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    poll(&writable, 1, -1)
                } else if count == 0 || errno != EINTR {
                    return false
                }
            }
            return true
        }
    }

    fileprivate static func line(_ report: @escaping (Int) -> String) -> (Int) -> [UInt8] {
        { Array((report($0) + "\n").utf8) }
    }
}

extension LineWriter.State {
    fileprivate mutating func next() -> [UInt8]? {
        let line = backlog.next(report: LineWriter.line(report))
        if line == nil { isWriting = false }
        return line
    }
}
