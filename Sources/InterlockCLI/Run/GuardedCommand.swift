import ArgumentParser
import Glibc
import InterlockCommandLine
import Subprocess

/// The command that is run under the lock. It has a process group of its own and this process' standard input, output and
/// error, and the kernel kills it when this process dies, however that happens.
struct GuardedCommand: Sendable {
    var program: Program
    /// How many of this process' last arguments are the command's.
    var wordCount: Int
    /// What the command is to ignore.
    var ignoredSignals: [Int32]

    /// Starts the command, runs `supervise` with its process, and reaps the process afterwards: until then its id belongs to
    /// nobody else.
    /// - Parameter supervise: returns when the command has ended.
    /// - Throws: `Failure` when it cannot be started.
    func run(
        environment: [Environment.Key: String?], _ supervise: (pid_t) async -> Supervision.End
    ) async throws -> Supervision.End {
        var options = PlatformOptions()
        options.processGroupID = 0
        do {
            let result = try await Subprocess.run(
                .name("setpriv"), arguments: Arguments(words), environment: .inherit.updating(environment),
                platformOptions: options, input: .currentStandardInput, output: .currentStandardOutput,
                error: .currentStandardError
            ) { execution in
                await supervise(execution.processIdentifier.value)
            }
            return result.closureResult
        } catch {
            throw Failure(
                "cannot start \(program.name): \(error); is setpriv installed, which is part of util-linux?",
                .notExecutable)
        }
    }

    /// `setpriv` has the kernel kill the process when this one dies, then runs this one's program, which is to be had under
    /// that name only while this one lives: so nothing is started for a holder that was gone before. See `RunChild`.
    private var words: [[UInt8]] {
        let parent = getpid()
        var words = ["--pdeathsig", "KILL", "--", "/proc/\(parent)/exe", RunChild.name, "--parent", "\(parent)"]
        words.append("--program=\(program.path)")
        if JobTerminal.isOurs { words.append("--foreground") }
        for signal in ignoredSignals { words += ["--ignoring", "\(signal)"] }
        words.append("--")
        // The command's own words byte for byte: not everything that is an argument is UTF-8.
        let all: [[UInt8]] = words.map { Array($0.utf8) } + ProgramArguments.bytes(ofLast: wordCount)
        // Each is read up to its zero byte.
        return all.map { $0 + [0] }
    }
}

/// A program, and where it lies.
struct Program: Sendable {
    /// As it was called.
    var name: String
    var path: String

    /// Where programs are looked for when there is no `PATH`.
    private static let standardPath = "/usr/local/bin:/usr/bin:/bin"

    private enum Candidate {
        case executable
        case notExecutable(String)
        case absent
    }

    /// Looks a program up as `execvp` does: a name with a slash is a path, others are looked for on the `PATH`.
    /// - Throws: `Failure` with the exit codes that shells have for it.
    static func find(
        _ name: String, searchPath: String? = ProcessEnvironment.variables["PATH"]
    ) throws(Failure) -> Program {
        var reason: String?
        for path in candidates(for: name, searchPath: searchPath ?? standardPath) {
            switch candidate(at: path) {
            case .executable: return Program(name: name, path: path)
            case .notExecutable(let why): reason = reason ?? "\(path) \(why)"
            case .absent: break
            }
        }
        if let reason { throw Failure("cannot execute \(name): \(reason)", .notExecutable) }
        throw Failure(
            "cannot execute \(name): there is no such program\(name.contains("/") ? "" : " on the PATH")", .notFound)
    }

    private static func candidates(for name: String, searchPath: String) -> [String] {
        if name.isEmpty { return [] }
        if name.contains("/") { return [name] }
        return searchPath.split(separator: ":", omittingEmptySubsequences: false).map { folder in
            // An empty part is the working directory.
            folder.isEmpty ? "./\(name)" : "\(folder)/\(name)"
        }
    }

    private static func candidate(at path: String) -> Candidate {
        var status = stat()
        guard stat(path, &status) == 0 else {
            return errno == EACCES ? .notExecutable("cannot be read") : .absent
        }
        if status.st_mode & S_IFMT == S_IFDIR { return .notExecutable("is a directory") }
        return access(path, X_OK) == 0 ? .executable : .notExecutable("is not executable")
    }
}

extension ExitCode {
    /// As shells report a process that a signal ended.
    static func ended(bySignal signal: Int32) -> ExitCode { ExitCode(128 + signal) }

    /// As shells report how a process ended.
    init(_ status: TerminationStatus) {
        switch status {
        case .exited(let code): self = ExitCode(code)
        case .signaled(let signal): self = .ended(bySignal: signal)
        }
    }
}
