import ArgumentParser
import InterlockCommandLine
import InterlockCore

/// `interlock run`: runs a command under a lock.
struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run a command while holding a lock, or as the elected leader.",
        discussion: """
            Acquires the lock, runs the command without a shell, renews the lease while it runs, and releases the lock when it \
            ends. Signals are forwarded to the command. Its environment has INTERLOCK_LOCK, INTERLOCK_TOKEN and \
            INTERLOCK_FENCE, but not INTERLOCK_API_KEY. Pass the fence to whatever the lock protects.

            If the lease is lost, the command gets SIGTERM and, 5 seconds later, SIGKILL; with --strict it gets SIGKILL as \
            soon as the lease ends. With --lead, the command is started again each time the lock is acquired, until it exits \
            by itself.

            EXIT CODES
              The exit code of the command, or 128 + N if signal N ended it. Also:
              64   invalid command line
              65   rejected as invalid (ttl out of range, bad label); nothing was run
              69   the sidecar or its Redis is unreachable, or it is not a sidecar
              74   the lease was lost while the command ran
              75   the lock is held; --held-exit-code sets another code
              77   the API key is missing or wrong
              126  the program cannot be executed
              127  the program was not found

            EXAMPLES
              interlock run --lock nightly-import -- ./import --all
              interlock run --lock nightly --at-least 10m --held-exit-code 0 -- ./import
              interlock run --lock orders --wait 10m --strict -- psql -f close.sql
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
        help: .duration(
            "The length of the lease, after which the lock is free if its holder dies, such as 5s, 30s or 2m.",
            default: .standardLease),
        transform: DurationArgument.init(argument:))
    var ttl = DurationArgument.standardLease

    @Option(
        help: .duration("How long to wait for the lock if it is held.", default: DurationArgument.noWait),
        transform: DurationArgument.init(argument:))
    var wait: DurationArgument?

    @Flag(help: "Do not wait (the default).")
    var noWait = false

    @Option(
        help: ArgumentHelp(
            "The exit code if the lock is held; 0 also prints nothing, for cron and timers.", valueName: "code"))
    var heldExitCode = ExitStatus.notAcquired.code

    @OptionGroup var sharing: SharingOptions

    @Option(
        help: .duration("If the command succeeds, hold the lock at least this long, so that a late start elsewhere is skipped."),
        transform: DurationArgument.init(argument:))
    var atLeast: DurationArgument?

    @Flag(help: "Never let the command run without a lease: end it with SIGKILL before the lease expires.")
    var strict = false

    @Flag(help: "Keep INTERLOCK_API_KEY in the command's environment, for a command that uses Interlock itself.")
    var passApiKey = false

    @Option(help: ArgumentHelp("The holder's name that others see, without spaces; by default the host name.", valueName: "name"))
    var label: String?

    @OptionGroup var sidecar: SidecarOptions

    @Argument(
        parsing: .postTerminator, help: ArgumentHelp("The program and its arguments, passed unchanged.", valueName: "command"),
        completion: .file())
    var words: [String] = []

    func validate() throws {
        _ = try purpose()
        guard !words.isEmpty else {
            throw ValidationError("expected a command after --, for example: interlock run --lock orders -- ./import --all")
        }
        guard ttl.duration >= RunPlan.minimumTTL.duration else {
            throw ValidationError("--ttl: expected at least \(RunPlan.minimumTTL), got \(ttl)")
        }
        guard (0...255).contains(heldExitCode) else {
            throw ValidationError("--held-exit-code: expected a whole number from 0 to 255, got \(heldExitCode)")
        }
        try Self.check(name, of: lock == nil ? "--lead" : "--lock")
        // The owner token contains the label, so it must be a valid name too.
        if let label { try Self.check(OwnerToken.make(label: label, random: (0, 0)), of: "--label") }
    }

    func run() async throws {
        // This must precede every change of a signal handler in this process.
        let ignored = RunSignals.ignored()
        let plan = RunPlan(
            name: name, purpose: try purpose(), mode: sharing.mode, ttl: ttl.duration,
            minimumHold: atLeast?.duration ?? .zero, isStrict: strict, label: label,
            heldExitCode: heldExitCode, passesAPIKey: passApiKey, sidecar: sidecar)
        let command = GuardedCommand(
            program: try ExecutableProgram.find(words.first ?? ""), wordCount: words.count, ignoredSignals: ignored)
        let mailbox = Mailbox()
        await RunSignals.collect(except: ignored, in: mailbox)
        let code = try await RunSession(plan: plan, command: command, mailbox: mailbox).run()
        if code != .success { throw code }
    }

    private var name: String { lock ?? lead ?? "" }

    private func purpose() throws -> RunPlan.Purpose {
        switch (lock, lead) {
        case (nil, nil), (_?, _?):
            throw ValidationError("expected either --lock NAME or --lead NAME")
        case (_?, nil):
            guard wait == nil || !noWait else { throw ValidationError("--wait and --no-wait cannot be used together") }
            return .once(wait: (wait ?? .noWait).duration)
        case (nil, _?):
            guard atLeast == nil else {
                throw ValidationError("--at-least works only with --lock: a leader holds the lock until its command ends")
            }
            guard wait == nil, !noWait else {
                throw ValidationError("--lead always waits; remove --wait or --no-wait")
            }
            guard sharing.isExclusive else {
                throw ValidationError("--lead allows only one leader; remove --shared or --permits")
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
