import Glibc
import Subprocess

/// The command that is run under the lock. It has a process group of its own and this process' standard input, output and
/// error, and the kernel kills it when this process dies, however that happens.
struct GuardedCommand: Sendable {
    var program: Program
    /// How many of this process' last words are the command's.
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
                exitCode: .notExecutable)
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
        let all: [[UInt8]] = words.map { Array($0.utf8) } + Self.lastWords(wordCount)
        // Each is read up to its zero byte.
        return all.map { $0 + [0] }
    }

    /// Byte for byte: not everything that is an argument is UTF-8.
    private static func lastWords(_ count: Int) -> [[UInt8]] {
        let end = Int(CommandLine.argc)
        return (end - count..<end).map { index in
            // Nobody writes there, and below argc there are words, each up to a zero byte.
            guard let word = CommandLine.unsafeArgv[index] else { return [] }
            return Array(UnsafeRawBufferPointer(start: word, count: strlen(word)))
        }
    }
}
