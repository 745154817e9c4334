import FoundationEssentials
import Glibc
import InterlockProcesses
import NIOConcurrencyHelpers
import Subprocess

/// A run of the `interlock` that was built with these tests, and its output.
///
/// The process dies with this one, as `ServerProcess` describes.
final class InterlockProcess: Sendable {
    private struct State {
        /// The process ID; `nil` unless the process runs, because the system may reuse the ID afterwards.
        var pid: pid_t?
        var output: [UInt8] = []
        var errors: [UInt8] = []
        var end: Result<TerminationStatus, any Error>?
    }

    private let state = NIOLockedValueBox(State())

    private init() {}

    /// The environment of this process, without the variables that `interlock` reads.
    static let environment = Environment.inherit.updating([
        "INTERLOCK_SIDECAR": nil, "INTERLOCK_API_KEY": nil, "INTERLOCK_REDIS_URL": nil, "INTERLOCK_RESP": nil,
        "INTERLOCK_HTTP": nil, "INTERLOCK_UNIX": nil, "INTERLOCK_UNIX_MODE": nil, "INTERLOCK_UNIX_GROUP": nil,
        "INTERLOCK_DATA_DIR": nil, "INTERLOCK_LOG_LEVEL": nil,
    ])

    /// Starts `interlock` with arguments.
    /// - Parameters:
    ///   - openFiles: the limit on open files; `nil` for the tests' own.
    ///   - wrapper: a program and its first arguments, which executes the command that follows them.
    static func start(
        _ arguments: [String], environment: Environment = InterlockProcess.environment, openFiles: Int? = nil,
        through wrapper: [String] = []
    ) async throws -> InterlockProcess {
        let process = InterlockProcess()
        let limit = openFiles.map { ["prlimit", "--nofile=\($0):\($0)"] } ?? []
        let words = ["--pdeathsig", "KILL", "--"] + limit + wrapper + [try program()] + arguments
        Task {
            let end: Result<TerminationStatus, any Error>
            do {
                let result = try await run(
                    .name("setpriv"), arguments: Arguments(words), environment: environment, input: .none,
                    output: .sequence, error: .sequence
                ) { execution in
                    process.state.withLockedValue { $0.pid = execution.processIdentifier.value }
                    // The process is reaped after this body, so its ID cannot be reused earlier.
                    defer { process.state.withLockedValue { $0.pid = nil } }
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask {
                            for try await chunk in execution.standardOutput {
                                chunk.withUnsafeBytes { bytes in
                                    process.state.withLockedValue { $0.output.append(contentsOf: bytes) }
                                }
                            }
                        }
                        group.addTask {
                            for try await chunk in execution.standardError {
                                chunk.withUnsafeBytes { bytes in
                                    process.state.withLockedValue { $0.errors.append(contentsOf: bytes) }
                                }
                            }
                        }
                        try await group.waitForAll()
                    }
                }
                end = .success(result.terminationStatus)
            } catch {
                end = .failure(error)
            }
            process.state.withLockedValue { $0.end = end }
        }
        try await eventually("interlock \(arguments.joined(separator: " ")) starts") {
            process.pid != nil || process.hasEnded
        }
        return process
    }

    /// Runs `interlock` to its end, which must come within 30 s.
    static func outcome(
        _ arguments: [String], environment: Environment = InterlockProcess.environment, through wrapper: [String] = []
    ) async throws -> CommandOutcome {
        let process = try await start(arguments, environment: environment, through: wrapper)
        do {
            let status = try await process.end(within: .seconds(30))
            return CommandOutcome(status: status, output: process.output, errors: process.errors)
        } catch {
            process.send(signal: SIGKILL)
            throw error
        }
    }

    /// The standard output so far.
    var output: String { state.withLockedValue { String(decoding: $0.output, as: UTF8.self) } }

    /// The standard error output so far.
    var errors: String { state.withLockedValue { String(decoding: $0.errors, as: UTF8.self) } }

    var pid: pid_t? { state.withLockedValue { $0.pid } }

    var hasEnded: Bool { state.withLockedValue { $0.end != nil } }

    /// Sends a signal, unless the process has ended.
    func send(signal: Int32) {
        state.withLockedValue { state in
            // The result does not matter: the process may have ended without having been reaped.
            if let pid = state.pid { _ = kill(pid, signal) }
        }
    }

    /// Waits for the process to end.
    /// - Returns: the exit code or the signal.
    func end(within limit: Duration) async throws -> TerminationStatus {
        try await eventually(within: limit, "interlock ends") { hasEnded }
        guard let end = state.withLockedValue({ $0.end }) else { throw Problem(reason: "interlock did not end") }
        return try end.get()
    }
}

extension InterlockProcess {
    /// An error for a test that cannot run.
    struct Problem: Error, CustomStringConvertible {
        var reason: String
        var description: String { reason }
    }

    static func program() throws -> String { try BuiltProgram.path("interlock") }
}

/// The result of a run of `interlock`.
struct CommandOutcome: Sendable, CustomStringConvertible {
    var status: TerminationStatus
    var output: String
    var errors: String

    var description: String { "\(status)\n\(output)\n\(errors)" }

    /// Decodes the output of `--json`. Names in snake case become camel case.
    func decoded<Value: Decodable>(_ type: Value.Type) throws -> Value {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(type, from: Data(output.utf8))
    }
}
