import ArgumentParser
import Glibc
import InterlockCommandLine
import InterlockCore
import Subprocess

/// The command that runs under the lock, in its own process group and with this process's standard input, output and
/// error. The kernel kills it when this process dies for any reason.
struct GuardedCommand: Sendable {
    var program: ExecutableProgram
    /// The number of words of the command, including the program's name. They are the last arguments of this process.
    var wordCount: Int
    /// The signals that the command must ignore.
    var ignoredSignals: [Int32]

    /// Starts the command, runs `supervise` with its process ID, and then reaps the process. Until then, the system
    /// does not reuse the ID.
    /// - Parameter supervise: a closure that returns after the command has ended.
    /// - Throws: `CommandFailure` if the command cannot be started.
    func run(
        environment: [Environment.Key: String?], _ supervise: (pid_t) async -> Supervision.End
    ) async throws -> Supervision.End {
        var options = PlatformOptions()
        options.processGroupID = 0
        do {
            let outcome = try await Subprocess.run(
                .name("setpriv"), arguments: Arguments(childArguments), environment: .inherit.updating(environment),
                platformOptions: options, input: .currentStandardInput, output: .currentStandardOutput,
                error: .currentStandardError
            ) { execution in
                await supervise(execution.processIdentifier.value)
            }
            return outcome.closureResult
        } catch {
            throw CommandFailure(
                "cannot start \(program.name): is setpriv (part of util-linux) installed? (\("\(error)".withoutFinalPeriod))",
                .notExecutable)
        }
    }

    /// The arguments of `setpriv`. It asks the kernel to kill the child when this process dies, then executes this
    /// process's program through `/proc`. That path exists only while this process lives, so the command cannot
    /// start after the holder of the lock has died. See `RunChild`.
    private var childArguments: [[UInt8]] {
        let parent = getpid()
        var options = ["--pdeathsig", "KILL", "--", "/proc/\(parent)/exe", RunChild.name, "--parent", "\(parent)"]
        options.append("--program=\(program.path)")
        if JobTerminal.isInForeground { options.append("--foreground") }
        for signal in ignoredSignals { options += ["--ignoring", "\(signal)"] }
        options.append("--")
        // The command's arguments are passed as bytes, because they need not be UTF-8.
        let arguments: [[UInt8]] = options.map { Array($0.utf8) } + ProgramArguments.bytes(ofLast: wordCount)
        // `exec` expects zero-terminated strings.
        return arguments.map { $0 + [0] }
    }
}

/// A program and the path of its executable file.
struct ExecutableProgram: Sendable {
    /// The name under which the program was requested.
    var name: String
    var path: String

    /// The search path if `PATH` is not set.
    private static let standardPath = "/usr/local/bin:/usr/bin:/bin"

    private enum Candidate {
        case executable
        case notExecutable(String)
        case absent
    }

    /// Finds a program as `execvp` does: a name with a slash is a path, and any other name is searched for in `PATH`.
    /// - Throws: `CommandFailure` with the exit code that a shell would use.
    static func find(
        _ name: String, searchPath: String? = ProcessEnvironment.variables["PATH"]
    ) throws(CommandFailure) -> ExecutableProgram {
        var reason: String?
        for path in candidates(for: name, searchPath: searchPath ?? standardPath) {
            switch candidate(at: path) {
            case .executable: return ExecutableProgram(name: name, path: path)
            case .notExecutable(let problem): reason = reason ?? "\(path) \(problem)"
            case .absent: break
            }
        }
        if let reason { throw CommandFailure("cannot execute \(name): \(reason)", .notExecutable) }
        throw CommandFailure(
            "cannot execute \(name): no such program\(name.contains("/") ? "" : " in PATH")", .notFound)
    }

    private static func candidates(for name: String, searchPath: String) -> [String] {
        if name.isEmpty { return [] }
        if name.contains("/") { return [name] }
        return searchPath.split(separator: ":", omittingEmptySubsequences: false).map { folder in
            // An empty entry means the working directory.
            folder.isEmpty ? "./\(name)" : "\(folder)/\(name)"
        }
    }

    private static func candidate(at path: String) -> Candidate {
        var status = stat()
        guard stat(path, &status) == 0 else {
            return errno == EACCES ? .notExecutable("is in a directory that cannot be searched") : .absent
        }
        if status.st_mode & S_IFMT == S_IFDIR { return .notExecutable("is a directory") }
        return access(path, X_OK) == 0 ? .executable : .notExecutable("is not executable")
    }
}

extension ExitCode {
    /// Returns the exit code with which a shell reports a process that a signal ended.
    static func ended(bySignal signal: Int32) -> ExitCode { ExitCode(128 + signal) }

    /// Creates the exit code with which a shell reports the end of a process.
    init(_ status: TerminationStatus) {
        switch status {
        case .exited(let code): self = ExitCode(code)
        case .signaled(let signal): self = .ended(bySignal: signal)
        }
    }
}
