import ArgumentParser
import Glibc
import InterlockClient
import InterlockCore
internal import InterlockJudge

/// `interlock run`: runs a command under a lock.
struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run a command under a lock, or while leading.",
        discussion: """
            Takes the lock, runs the command without a shell, renews the lease while it runs, and gives the lock back when it \
            has ended. Signals are passed on to the command. It finds INTERLOCK_LOCK, INTERLOCK_TOKEN and INTERLOCK_FENCE in \
            its environment: show the fence to whatever the lock guards.

            When the lease is lost, the command gets SIGTERM and, 5 seconds later, SIGKILL; with --strict it gets SIGKILL when \
            the lease is over. With --lead it is run again when the lock is had again, until it ends by itself.

            EXIT CODES
              the command's own; 128 and the signal's number when a signal ended it
              64   the command line cannot be understood
              69   the sidecar or its Redis cannot be reached, or refuses
              74   the lease was lost while the command ran
              75   another holds the lock
              126  the program cannot be executed
              127  there is no such program

            EXAMPLES
              interlock run --lock nightly-import --no-wait -- ./import --all
              interlock run --lock nightly-import --no-wait --at-least 10m -- ./import --all
              interlock run --lock orders --ttl 1m --wait 10m --strict -- psql -f close-orders.sql
              interlock run --lock builds --permits 4 -- make
              interlock run --lead scheduler -- ./scheduler
            """
    )

    @Option(help: ArgumentHelp("Run the command once, under this lock.", valueName: "name"), completion: .lockNames)
    var lock: String?

    @Option(
        help: ArgumentHelp("Run the command whenever this one leads, that is, has this lock.", valueName: "name"),
        completion: .lockNames)
    var lead: String?

    @Option(help: ArgumentHelp("How long the lock outlives a holder that is gone: 5s, 30s, 2m.", valueName: "duration"))
    var ttl = DurationArgument.standardLease

    @Option(
        help: ArgumentHelp(
            "How long to wait while another holds the lock; without it \(RunPlan.standardPatience.defaultValueDescription).",
            valueName: "duration"))
    var wait: DurationArgument?

    @Flag(help: "Exit with 75 at once when another holds the lock.")
    var noWait = false

    @OptionGroup var sharing: SharingOptions

    @Option(
        help: ArgumentHelp(
            "Keep the lock for so long at least when the command has succeeded: for the same job elsewhere, whose clock is late.",
            valueName: "duration"))
    var atLeast: DurationArgument?

    @Flag(help: "Never let the command run on without a lease: end it by SIGKILL.")
    var strict = false

    @Option(help: ArgumentHelp("What others see of the holder; without it this host's name.", valueName: "text"))
    var label: String?

    @OptionGroup var sidecar: SidecarOptions

    @Argument(
        parsing: .postTerminator, help: ArgumentHelp("The program and its arguments, as they are.", valueName: "command"))
    var words: [String] = []

    func validate() throws {
        _ = try purpose()
        guard !words.isEmpty else {
            throw ValidationError("expected a command behind --, as in: interlock run --lock orders -- ./import --all")
        }
        guard ttl.duration >= RunPlan.shortestTTL.duration else {
            throw ValidationError("--ttl: expected \(RunPlan.shortestTTL.defaultValueDescription) or more")
        }
        try Self.check(name, of: lock == nil ? "--lead" : "--lock")
        // The token that is made of the label has to be a name too.
        if let label { try Self.check(OwnerToken.make(label: label, random: (0, 0)), of: "--label") }
    }

    func run() async throws {
        // Before anything of this process changes what happens to signals.
        let ignored = RunSignals.ignored()
        let plan = RunPlan(
            name: name, purpose: try purpose(), mode: sharing.mode, ttl: ttl.duration,
            atLeast: atLeast?.duration ?? .zero, isStrict: strict, label: label,
            sidecar: sidecar)
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
            return .once(patience: noWait ? .zero : (wait ?? RunPlan.standardPatience).duration)
        case (nil, _?):
            guard atLeast == nil else { throw ValidationError("--at-least is for --lock: who leads leads until it ends") }
            guard wait == nil, !noWait else {
                throw ValidationError("--lead waits for ever: expected neither --wait nor --no-wait")
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
            throw ValidationError("\(option): \(error)")
        }
    }
}

/// What `interlock run` was asked for, but for the command.
struct RunPlan: Sendable {
    enum Purpose: Hashable, Sendable {
        /// To run the command once, if the lock is had within this time.
        case once(patience: Duration)
        /// To run the command whenever the lock is had, until the command ends by itself.
        case lead
    }

    /// The lock's name.
    var name: String
    var purpose: Purpose
    var mode: SidecarLockMode
    var ttl: Duration
    /// After a success the lease is kept until so long after it was had; zero: it is given back at once.
    var atLeast: Duration
    /// Whether the command may never run on without a lease.
    var isStrict: Bool
    /// What others see of the holder; `nil`: this host's name.
    var label: String?
    var sidecar: SidecarOptions

    /// How long the lock is waited for when nobody says otherwise.
    static let standardPatience = DurationArgument(.seconds(10))
    /// The shortest lease that a renewal over a network can be expected to keep.
    static let shortestTTL = DurationArgument(.milliseconds(200))

    /// A token that nobody has ever had: with one of its own, a holder can ask again when it does not know what became of
    /// its request.
    func drawToken() -> String {
        OwnerToken.make(
            label: label ?? Self.hostName,
            random: (UInt64.random(in: 0...UInt64.max), UInt64.random(in: 0...UInt64.max)))
    }

    private static var hostName: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "localhost" }
        let name = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // A host may be called what a label may not.
        return (try? ResourceName(name))?.text ?? "localhost"
    }
}
