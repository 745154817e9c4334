package import ArgumentParser
import Dispatch
import Glibc
import Interlock
import InterlockCore

/// The entry point of a program with subcommands. Each failure ends the process with a message on standard error and an
/// exit code.
extension AsyncParsableCommand {
    /// Parses this process's arguments and runs the command on another thread.
    /// - Parameter isRun: a closure that returns whether a command is `interlock run`, which has its own exit codes.
    package static func begin(isRun: @escaping @Sendable (any ParsableCommand) -> Bool = { _ in false }) -> Never {
        StandardStreams.openMissing()
        // libdispatch reads /proc and crashes without it, so nothing may use it before this check.
        guard access("/proc/self/stat", R_OK) == 0 else {
            let message = "interlock: cannot read /proc, which every command needs: mount it\n"
            _ = message.withCString { write(STDERR_FILENO, $0, strlen($0)) }
            exit(withError: ExitCode(.unavailable))
        }
        Task { await main(isRun: isRun) }
        dispatchMain()
    }

    private static func main(isRun: @Sendable (any ParsableCommand) -> Bool) async {
        var isRunCommand = false
        do {
            let words = Array(ProgramArguments.strings.dropFirst())
            if let failure = misnamedCommand(in: words) { throw failure }
            var command = try await asyncParseAsRoot(words)
            isRunCommand = isRun(command)
            if command.isGroup {
                throw CommandFailure("expected a command, got none\n\n\(helpMessage(for: type(of: command)))", .usage)
            }
            try OpenFileLimit.ensureMinimum()
            if var asyncCommand = command as? any AsyncParsableCommand {
                try await asyncCommand.run()
            } else {
                try command.run()
            }
            Terminal.flush()
            exit()
        } catch {
            exit(failure: error, isRunCommand: isRunCommand)
        }
    }
}

extension OpenFileLimit {
    /// The number of file descriptors that a command needs to start its threads and connect.
    private static let minimum = 64

    /// Raises the open-file limit if it is below the minimum.
    /// - Throws: `CommandFailure` if the limit cannot be raised that far.
    fileprivate static func ensureMinimum() throws(CommandFailure) {
        guard let current, current < minimum, let limit = raiseToHardLimit(), limit < minimum else { return }
        throw CommandFailure(
            "the open-file limit is \(limit), but \(minimum) is required: raise it with `ulimit -n \(minimum)`", .unavailable)
    }
}

extension ParsableCommand {
    /// Whether the command only groups subcommands.
    fileprivate var isGroup: Bool {
        let configuration = Self.configuration
        return !configuration.subcommands.isEmpty && configuration.defaultSubcommand == nil
    }

    /// Reports an error and exits the process with its exit code.
    package static func exit(failure error: any Error, isRunCommand: Bool) -> Never {
        guard let failure = error as? CommandFailure else {
            Terminal.flush()
            exit(withError: error)
        }
        Terminal.report("interlock: \(failure)")
        Terminal.flush()
        exit(withError: ExitCode(failure.status, isRunCommand: isRunCommand))
    }

    /// Returns the failure for the first word that should name a command but does not; `nil` if all names are correct.
    package static func misnamedCommand(in arguments: [String]) -> CommandFailure? {
        var command: any ParsableCommand.Type = self
        var path = _commandName
        for (index, word) in arguments.enumerated() {
            let subcommands = command.configuration.subcommands
            guard !subcommands.isEmpty, word != "help" else { return nil }
            if word.hasPrefix("-") {
                return command.misplacedOption(word, in: path, before: arguments.dropFirst(index + 1))
            }
            guard let subcommand = subcommands.first(where: { $0.names.contains(word) }) else {
                let hint = subcommands.suggestion(for: word).map { ": did you mean `\(path) \($0)`?" } ?? "; see `\(path) --help`"
                return CommandFailure("unknown command `\(path) \(word)`\(hint)", .usage)
            }
            command = subcommand
            path += " " + word
        }
        return nil
    }

    /// Returns the failure for a command's option that precedes the command's name; `nil` for `--help` and the like.
    private static func misplacedOption(_ option: String, in path: String, before words: ArraySlice<String>) -> CommandFailure? {
        guard configuration.defaultSubcommand == nil, !groupOptions.contains(where: { option.hasPrefix($0) }) else { return nil }
        let names = configuration.subcommands.flatMap { $0.names }
        guard let name = words.first(where: { names.contains($0) }) else { return nil }
        return CommandFailure("options follow the command: write `\(path) \(name)` before `\(option)`", .usage)
    }

    /// The options that ArgumentParser gives to every command.
    private static var groupOptions: [String] {
        ["-h", "--help", "--version", "---completion", "--generate-completion", "--experimental"]
    }

    fileprivate static var names: [String] { [_commandName] + configuration.aliases }
}

extension [any ParsableCommand.Type] {
    /// Returns the command with the closest name, or the command that has a subcommand with exactly this name.
    fileprivate func suggestion(for word: String) -> String? {
        let visibleCommands = filter { $0.configuration.shouldDisplay }
        let names = visibleCommands.flatMap { $0.names }
        if let closest = ConfigurationText.closest(to: word, among: names) { return closest }
        return visibleCommands.first { $0.configuration.subcommands.contains { $0.names.contains(word) } }.map {
            "\($0._commandName) \(word)"
        }
    }
}
