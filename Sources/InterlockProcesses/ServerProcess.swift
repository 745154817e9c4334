internal import Glibc
internal import NIOConcurrencyHelpers
internal import Subprocess

/// A child process that runs until it is told to end, and what it printed.
///
/// It dies with this process: `setpriv` has the kernel kill it when the thread that started it ends, and swift-subprocess
/// starts every child on one thread that lives as long as the process (`Thread.swift`, `_setupWorkerThread`).
package final class ServerProcess: Sendable {
    private let record: Record
    private let ended: Task<Void, Never>

    private init(record: Record, ended: Task<Void, Never>) {
        self.record = record
        self.ended = ended
    }

    /// Starts `program`, found on the PATH.
    /// - Parameter logLimit: how many bytes of what it prints last are sure to be kept; at most twice as many are.
    /// - Throws: what swift-subprocess throws when nothing could be started. A program that does not exist starts all the
    ///   same, and ends at once with a word about it in its log.
    package static func start(
        _ program: String, arguments: [String], logLimit: Int = 1 << 20
    ) async throws -> ServerProcess {
        let record = Record(logLimit: logLimit)
        let (launches, launch) = AsyncThrowingStream.makeStream(of: Void.self)
        let ended = Task {
            do {
                _ = try await run(
                    .name("setpriv"),
                    arguments: Arguments(["--pdeathsig", "KILL", "--", program] + arguments),
                    input: .none,
                    output: .sequence,
                    error: .combinedWithOutput
                ) { execution in
                    record.began(execution.processIdentifier.value)
                    // The process is reaped after this body: until it returns, its id belongs to nobody else.
                    defer { record.ends() }
                    launch.yield()
                    for try await chunk in execution.standardOutput {
                        chunk.withUnsafeBytes { record.append($0) }
                    }
                }
                launch.finish()
            } catch {
                launch.finish(throwing: error)
            }
        }
        // Not cancelled with the caller, who could not end then what has not begun yet.
        try await Task { for try await _ in launches { break } }.value
        return ServerProcess(record: record, ended: ended)
    }

    /// The end of what the process printed so far.
    package var log: String { record.log }

    package var isRunning: Bool { record.processID != nil }

    /// `nil`: it is gone, and the number may be another's.
    package var processID: Int32? { record.processID }

    /// Sends a signal, unless the process is gone.
    package func send(signal: Int32) {
        record.send(signal: signal)
    }

    /// Waits until the process is gone.
    package func waitUntilEnd() async {
        await ended.value
    }

    /// Asks the process to end, and ends it when it has not within `patience`.
    package func stop(patience: Duration) async {
        send(signal: SIGCONT)
        send(signal: SIGTERM)
        let insistence = Task { [record] in
            // Cancelled when the process has ended before.
            try await Task.sleep(for: patience)
            record.send(signal: SIGKILL)
        }
        await waitUntilEnd()
        insistence.cancel()
    }
}

extension ServerProcess {
    /// What is known of the process; shared with the task that runs it.
    private final class Record: Sendable {
        private struct State {
            var pid: pid_t?
            var output: [UInt8] = []
        }

        private let state = NIOLockedValueBox(State())
        private let logLimit: Int

        init(logLimit: Int) {
            self.logLimit = logLimit
        }

        func began(_ pid: pid_t) {
            state.withLockedValue { $0.pid = pid }
        }

        func ends() {
            state.withLockedValue { $0.pid = nil }
        }

        func append(_ bytes: UnsafeRawBufferPointer) {
            state.withLockedValue { state in
                state.output.append(contentsOf: bytes)
                // At twice the limit: each byte is moved at most once.
                if state.output.count > 2 * logLimit { state.output.removeFirst(state.output.count - logLimit) }
            }
        }

        var log: String {
            state.withLockedValue { String(decoding: $0.output, as: UTF8.self) }
        }

        var processID: pid_t? {
            state.withLockedValue { $0.pid }
        }

        func send(signal: Int32) {
            state.withLockedValue { state in
                // Fails only for a process that has ended and is not reaped yet, which is as well.
                if let pid = state.pid { _ = Glibc.kill(pid, signal) }
            }
        }
    }
}
