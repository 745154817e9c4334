import ArgumentParser
import InterlockCommandLine
import InterlockCore

/// `interlock`: the sidecar, and the tools that talk to one.
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

    /// Runs a command on this very thread.
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

/// Where the process begins.
@main
enum InterlockProgram {
    /// `RunChild` stays on the thread that the process began on: what the kernel was asked to do when a process dies, it was
    /// asked for one thread, and only that one can execute the command without forgetting it. Everything else is
    /// asynchronous, and leaves that thread.
    static func main() {
        if ProgramArguments.words.dropFirst().first == RunChild.name {
            InterlockCommand.main(synchronously: RunChild.self)
        }
        InterlockCommand.begin { $0 is Run }
    }
}
