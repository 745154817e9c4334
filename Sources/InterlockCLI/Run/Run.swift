import ArgumentParser
import InterlockCommandLine
import InterlockCore

/// `interlock run`: runs a command under a lock.
struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run a command under a lock, or while leading.",
        discussion: """
            Acquires the lock, runs the command without a shell, renews the lease while it runs, and releases the lock when it \
            ends. Signals are passed on to the command. Its environment has INTERLOCK_LOCK, INTERLOCK_TOKEN and \
            INTERLOCK_FENCE, and not INTERLOCK_API_KEY: show the fence to what the lock guards.

            When the lease is lost, the command gets SIGTERM and, 5 seconds later, SIGKILL; with --strict it gets SIGKILL as \
            soon as the lease ends. With --lead it runs again each time the lock is acquired, until it ends by itself.

            EXIT CODES
              the command's own; 128 and the signal's number when a signal ended it
              64   the command line cannot be understood
              65   refused as invalid: a --ttl or --at-least out of bounds; nothing was run
              69   the sidecar or its Redis cannot be reached, or is no sidecar
              74   the lease was lost while the command ran
              75   another holds the lock; --held-exit-code chooses another code
              77   no API key, or a wrong one
              126  the program cannot be executed
              127  there is no such program

            EXAMPLES
              interlock run --lock nightly-import -- ./import --all
              interlock run --lock nightly-import --at-least 10m --held-exit-code 0 -- ./import --all
              interlock run --lock orders --ttl 1m --wait 10m --strict -- psql -f close-orders.sql
              interlock run --lock builds --permits 4 -- make
              interlock run --lead scheduler -- ./scheduler
            """
    )

    @Option(help: ArgumentHelp("Run the command once, under this lock.", valueName: "name"), completion: .lockNames)
    var lock: String?

    @Option(
        help: ArgumentHelp("Run the command whenever this process leads, that is, holds this lock.", valueName: "name"),
        completion: .lockNames)
    var lead: String?

    @Option(
        help: .duration("How long the lock stays held after its holder died: 5s, 30s, 2m.", default: .standardLease),
        transform: DurationArgument.init(argument:))
    var ttl = DurationArgument.standardLease

    @Option(
        help: .duration("How long to wait while another holds the lock.", default: DurationArgument.noWait),
        transform: DurationArgument.init(argument:))
    var wait: DurationArgument?

    @Flag(help: "Do not wait, which is the default.")
    var noWait = false

    @Option(
        help: ArgumentHelp(
            "The exit code when another holds the lock; with 0 nothing is said either: for cron and timers.", valueName: "code"))
    var heldExitCode = ExitStatus.notAcquired.code

    @OptionGroup var sharing: SharingOptions

    @Option(
        help: .duration("After a success, hold the lock for at least this long: the same job elsewhere may start late."),
        transform: DurationArgument.init(argument:))
    var atLeast: DurationArgument?

    @Flag(help: "Never let the command run without a lease: end it with SIGKILL.")
    var strict = false

    @Flag(help: "Leave INTERLOCK_API_KEY in the command's environment, for a command that uses interlock itself.")
    var passApiKey = false

    @Option(help: ArgumentHelp("What others see of the holder, without spaces; by default the host name.", valueName: "name"))
    var label: String?

    @OptionGroup var sidecar: SidecarOptions

    @Argument(
        parsing: .postTerminator, help: ArgumentHelp("The program and its arguments, as they are.", valueName: "command"))
    var words: [String] = []

    func validate() throws {
        _ = try purpose()
        guard !words.isEmpty else {
            throw ValidationError("expected a command after --, as in: interlock run --lock orders -- ./import --all")
        }
        guard ttl.duration >= RunPlan.shortestTTL.duration else {
            throw ValidationError("--ttl: expected \(RunPlan.shortestTTL) or more")
        }
        guard (0...255).contains(heldExitCode) else {
            throw ValidationError("--held-exit-code: expected a whole number from 0 to 255, got \(heldExitCode)")
        }
        try Self.check(name, of: lock == nil ? "--lead" : "--lock")
        // The owner token contains the label, so it must be a valid name too.
        if let label { try Self.check(OwnerToken.make(label: label, random: (0, 0)), of: "--label") }
    }

    func run() async throws {
        // Must run before this process changes its signal handlers.
        let ignored = RunSignals.ignored()
        let plan = RunPlan(
            name: name, purpose: try purpose(), mode: sharing.mode, ttl: ttl.duration,
            atLeast: atLeast?.duration ?? .zero, isStrict: strict, label: label,
            heldExitCode: heldExitCode, passesAPIKey: passApiKey, sidecar: sidecar)
        let command = GuardedCommand(
            program: try Program.find(words.first ?? ""), wordCount: words.count, ignoredSignals: ignored)
        let mailbox = Mailbox()
        await RunSignals.collect(except: ignored, in: mailbox)
        let code = try await RunSession(plan: plan, command: command, mailbox: mailbox).run()
        if code != .success { throw code }
    }

    private var name: String { lock ?? lead ?? "" }

    private func purpose() throws -> RunPlan.Purpose {
        switch (lock, lead) {
        case (nil, nil), (_?, _?):
            throw ValidationError("expected one of --lock NAME and --lead NAME")
        case (_?, nil):
            guard wait == nil || !noWait else { throw ValidationError("expected one of --wait and --no-wait, not both") }
            return .once(wait: (wait ?? .noWait).duration)
        case (nil, _?):
            guard atLeast == nil else {
                throw ValidationError("--at-least is for --lock only: a leader holds the lock until its command ends")
            }
            guard wait == nil, !noWait else {
                throw ValidationError("--lead waits forever: expected neither --wait nor --no-wait")
            }
            guard sharing.isExclusive else {
                throw ValidationError("only one can lead: expected neither --shared nor --permits")
            }
            return .lead
        }
    }

    private static func check(_ name: String, of option: String) throws {
        do throws(ResourceName.Violation) {
            _ = try ResourceName(name)
        } catch {
            throw ValidationError(error.message(for: option))
        }
    }
}
