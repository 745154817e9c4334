import ArgumentParser
import InterlockCommandLine
import InterlockCore

/// `interlock`: the sidecar and its command-line tools.
struct InterlockCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "interlock",
        abstract: "Leased locks, rate limits and circuit breakers for a fleet, over one shared Redis.",
        discussion: """
            Run a sidecar beside each instance of your application, then talk to it with any Redis client, with curl, or with \
            the commands below. They find it by --sidecar, then INTERLOCK_SIDECAR, then at its standard address; \
            INTERLOCK_API_KEY holds the API key.

            EXIT CODES
              0   done
              1   no: held by another, limited, lost or not found; another try may succeed
              64  the command line cannot be understood
              65  refused as invalid: a name, a ttl out of bounds, an unknown service
              69  the sidecar or its Redis cannot be reached, or is no sidecar
              77  no API key, a wrong one, or one without the role
              `interlock run` has more of them. INTERLOCK_EXIT_CODES=1 gives 1 instead of 65 and 77, as before 0.2.0, and where a
              sidecar does not know the command.

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

    /// The prefix of ArgumentParser's own errors, instead of "Error: ".
    static let _errorPrefix = "interlock: "

    /// Runs a command synchronously on the current thread.
    static func main(synchronously command: any ParsableCommand.Type) -> Never {
        do {
            var command = try command.parseAsRoot(Array(ProgramArguments.words.dropFirst(2)))
            try command.run()
            exit()
        } catch {
            exit(failure: error, isOfRun: true)
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
    /// Runs `RunChild` synchronously on the initial thread: the parent-death signal is set for a single thread, and it
    /// survives `exec` only if that same thread calls it. All other commands are asynchronous and leave that thread.
    static func main() {
        if ProgramArguments.words.dropFirst().first == RunChild.name {
            InterlockCommand.main(synchronously: RunChild.self)
        }
        InterlockCommand.begin { $0 is Run }
    }
}
