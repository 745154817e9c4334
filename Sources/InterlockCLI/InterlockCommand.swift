import ArgumentParser
import InterlockCommandLine
import InterlockCore

/// `interlock`: the sidecar and its command-line tools.
struct InterlockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "interlock",
        abstract: "Leased locks, rate limits and circuit breakers for a fleet, over one shared Redis.",
        discussion: """
            Run a sidecar next to each instance of your application, then use it from any Redis client, from curl, or with \
            the commands below. They connect to --sidecar, otherwise to INTERLOCK_SIDECAR, otherwise to 127.0.0.1:7379. \
            INTERLOCK_API_KEY holds the API key.

            EXIT CODES
              0   success
              1   the answer is no: held, limited, lost or not found; retrying may help
              64  invalid command line or configuration
              65  rejected as invalid: a name, a ttl out of range, an unknown service
              69  the sidecar or its Redis is unreachable, or it is not a sidecar
              77  the API key is missing, wrong, or lacks the required role

            `interlock run` has additional codes. With INTERLOCK_EXIT_CODES=1, codes 65 and 77 become 1, as before 0.2.0.

            EXAMPLES
              interlock serve
              interlock serve --redis redis://127.0.0.1:6379 --config interlock.yaml
              interlock lock acquire orders --ttl 30s
              interlock run --lock nightly-import -- ./import --all
              interlock status
              interlock top
            """,
        version: SidecarVersion.current,
        subcommands: [
            Serve.self, CheckConfig.self, ConfigCommand.self, Status.self, TopCommand.self, FleetCommand.self, LockCommand.self,
            Run.self,
            LimitCommand.self, BreakerCommand.self, EventsCommand.self, StartBench.self, Version.self, RunChild.self,
        ]
    )

    /// The prefix of ArgumentParser's own errors, which would otherwise be "Error: ".
    static let _errorPrefix = "interlock: "

    /// Parses this process's arguments and runs a command synchronously on the current thread.
    static func main(synchronously command: any ParsableCommand.Type) -> Never {
        do {
            var command = try command.parseAsRoot(Array(ProgramArguments.strings.dropFirst(2)))
            try command.run()
            exit()
        } catch {
            exit(failure: error, isRunCommand: true)
        }
    }
}

/// `interlock version`: the same as `--version`.
struct Version: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print the version.",
        discussion: """
            EXAMPLES
              interlock version
            """
    )

    func run() {
        Terminal.show(SidecarVersion.current)
    }
}

/// The entry point of the process.
@main
enum InterlockProgram {
    /// Runs `RunChild` synchronously on the initial thread. The parent-death signal belongs to that thread, and
    /// survives `exec` only if that thread calls it. All other commands are asynchronous and may run on any thread.
    static func main() {
        if ProgramArguments.strings.dropFirst().first == RunChild.name {
            InterlockCommand.main(synchronously: RunChild.self)
        }
        InterlockCommand.begin { $0 is Run }
    }
}
