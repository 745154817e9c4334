internal import Glibc
internal import NIOConcurrencyHelpers
internal import Subprocess

/// A child process that runs until it is stopped, and its output.
///
/// The server ends with this process: `setpriv` makes the kernel kill it when the thread that started it ends, and
/// swift-subprocess starts all children on one thread that runs until this process exits (`Thread.swift`,
/// `_setupWorkerThread`).
package final class ServerProcess: Sendable {
    private let record: Record
    /// The task that runs the process, and finishes when the process has ended.
    private let runTask: Task<Void, Never>

    private init(record: Record, runTask: Task<Void, Never>) {
        self.record = record
        self.runTask = runTask
    }

    /// Starts `program` from the PATH.
    /// - Parameter logLimit: the minimum number of bytes of the latest output to keep; at most twice as many are kept.
    /// - Throws: an error of swift-subprocess if no process could be started. If `program` is missing, the process
    ///   starts, but ends immediately with a message in its log.
    package static func start(
        _ program: String, arguments: [String], logLimit: Int = 1 << 20
    ) async throws -> ServerProcess {
        let record = Record(logLimit: logLimit)
        let (launches, launchContinuation) = AsyncThrowingStream.makeStream(of: Void.self)
        let runTask = Task {
            do {
                _ = try await run(
                    .name("setpriv"),
                    arguments: Arguments(["--pdeathsig", "KILL", "--", program] + arguments),
                    input: .none,
                    output: .sequence,
                    error: .combinedWithOutput
                ) { execution in
                    record.processStarted(execution.processIdentifier.value)
                    // The process is reaped only after this closure returns, so its ID cannot be reused before.
                    defer { record.processEnded() }
                    launchContinuation.yield()
                    for try await chunk in execution.standardOutput {
                        chunk.withUnsafeBytes { record.append($0) }
                    }
                }
                launchContinuation.finish()
            } catch {
                launchContinuation.finish(throwing: error)
            }
        }
        // Wait for the start even if the caller is cancelled, because without this object it could not end the process.
        try await Task { for try await _ in launches { break } }.value
        return ServerProcess(record: record, runTask: runTask)
    }

    /// The end of the output so far.
    package var log: String { record.log }

    package var isRunning: Bool { record.processID != nil }

    /// The process ID; `nil` once the process has ended, because the ID may be reused.
    package var processID: Int32? { record.processID }

    /// Sends a signal, unless the process has ended.
    package func send(signal: Int32) {
        record.send(signal: signal)
    }

    /// Waits until the process has ended.
    package func waitUntilEnd() async {
        await runTask.value
    }

    /// Asks the process to end, and kills it after `gracePeriod`.
    package func stop(gracePeriod: Duration) async {
        send(signal: SIGCONT)
        send(signal: SIGTERM)
        let killTask = Task { [record] in
            // Cancelled if the process ends first.
            try await Task.sleep(for: gracePeriod)
            record.send(signal: SIGKILL)
        }
        await waitUntilEnd()
        killTask.cancel()
    }
}

extension ServerProcess {
    /// The state of the process, shared with the task that runs it.
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

        func processStarted(_ pid: pid_t) {
            state.withLockedValue { $0.pid = pid }
        }

        func processEnded() {
            state.withLockedValue { $0.pid = nil }
        }

        func append(_ bytes: UnsafeRawBufferPointer) {
            state.withLockedValue { state in
                state.output.append(contentsOf: bytes)
                // Trim the output at twice the limit, so that each byte is moved at most once.
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
                // This fails only for a process that has ended and is not reaped, which is harmless.
                if let pid = state.pid { _ = Glibc.kill(pid, signal) }
            }
        }
    }
}
