import ArgumentParser
import InterlockClient
import InterlockCommandLine
import InterlockCore

extension LockCommand {
    /// `interlock lock acquire`: acquires a lock.
    struct Acquire: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Acquire a lock.",
            discussion: """
                Prints the token that renews and releases it, the fence to show to what the lock guards, and how long the \
                lease is valid. Nothing renews it for you: see `interlock run`. Exits with 1 when another holds the lock. \
                With --json it prints one object whatever happens: see "acquired" first.

                EXAMPLES
                  interlock lock acquire orders
                  interlock lock acquire orders --ttl 2m --wait 10s --label nightly-import
                  token=$(interlock lock acquire orders --print token) || exit
                """
        )

        @Argument(help: "The lock's name.", completion: .lockNames)
        var name: String

        @Option(
            help: .duration("How long the lease lasts: 500ms, 30s, 2m.", default: .standardLease),
            transform: DurationArgument.init(argument:))
        var ttl = DurationArgument.standardLease

        @Option(
            help: .duration("How long to wait while another holds it: 500ms, 10s.", default: .noWait),
            transform: DurationArgument.init(argument:))
        var wait = DurationArgument.noWait

        @Option(
            help: ArgumentHelp(
                "A token of your own. Asking again with it gives the same lease, extended: a retry is safe.", valueName: "token"))
        var owner: String?

        @Option(
            help: ArgumentHelp("What others see of the holder: a name for this job or host, without spaces.", valueName: "name"))
        var label: String?

        @OptionGroup var sharing: SharingOptions
        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        @Option(
            name: .customLong("print"),
            help: ArgumentHelp("Print this alone, and nothing when there is no lease.", valueName: "part"))
        var part: LockGrant.Part?

        func validate() throws {
            guard part == nil || !output.json else { throw ValidationError("expected one of --json and --print, not both") }
        }

        func run() async throws {
            let grant: LockGrant
            do {
                grant = LockGrant(try await acquire())
            } catch let failure as Failure where output.json {
                Terminal.show(try JSONOutput.text(LockRefusal(name: name, failure)))
                throw failure
            }
            if let part { Terminal.show(grant[part]) } else { try Terminal.show(grant, asJSON: output.json) }
        }

        private func acquire() async throws -> Lease {
            try await sidecar.withClient("lock acquire \(name)") { client in
                let lease = try await client.locks.acquire(
                    name, ttl: ttl.duration, wait: wait.duration, mode: sharing.mode, owner: owner, label: label)
                guard let lease else { throw Failure(refusal(await EndedWait(wait.duration, at: client)), .no) }
                return lease
            }
        }

        /// Returns the reason why the lock was not acquired, with advice.
        private func refusal(_ wait: EndedWait?) -> String {
            let look = "see `interlock lock show \(name)`"
            guard let wait else { return "the lock \(name) is held by another: wait for it with --wait, or \(look)" }
            let advice = wait.mayBeLonger ? "wait longer with --wait, or \(look)" : look
            return "the lock \(name) is still held after \(wait.description): \(advice)"
        }
    }
}

/// The options that allow other holders of the same lock.
struct SharingOptions: ParsableArguments {
    @Flag(help: "Hold the lock as a reader: together with other readers, never with a writer.")
    var shared = false

    @Option(help: ArgumentHelp("Hold one of n places of the lock.", valueName: "n"))
    var permits: Int?

    var isExclusive: Bool { !shared && permits == nil }

    func validate() throws {
        guard !shared || permits == nil else { throw ValidationError("expected one of --shared and --permits, not both") }
        guard permits.map(LockMode.slots.contains) ?? true else {
            let slots = LockMode.slots
            throw ValidationError(
                "--permits: expected a whole number from \(slots.lowerBound) to \(slots.upperBound), got \(permits ?? 0)")
        }
    }

    var mode: LockMode { permits.map { .permits($0) } ?? (shared ? .shared : .exclusive) }
}

extension LockCommand {
    /// `interlock lock renew`: extends a lease.
    struct Renew: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Extend a lease.",
            discussion: """
                Prints how long the lease is valid from now on. Exits with 1 when it is lost: it expired or was broken.

                With a token of your own give --fence: then a renewal that is sent again, and arrives late, does not extend \
                a later lease of that token.

                EXAMPLES
                  interlock lock renew orders "$token" --ttl 30s
                """
        )

        @Argument(help: "The lock's name.", completion: .lockNames)
        var name: String

        @Argument(help: "The token that the lock was acquired with.")
        var token: String

        @Option(
            help: .duration("How long the lease lasts from now on: 500ms, 30s, 2m.", default: .standardLease),
            transform: DurationArgument.init(argument:))
        var ttl = DurationArgument.standardLease

        @Option(help: ArgumentHelp("Only the lease with this fence.", valueName: "number"))
        var fence: Int64?

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let validity = try await sidecar.withClient("lock renew \(name)") { client in
                try await client.locks.renew(name, token: token, ttl: ttl.duration, fence: fence)
            }
            guard let validity else {
                throw Failure(
                    "the lease of \(name) is lost: stop the work that it guards, then acquire the lock again", .no)
            }
            try Terminal.show(
                LockRenewal(name: name, validMilliseconds: validity.wholeMilliseconds), asJSON: output.json)
        }
    }
}

extension LockCommand {
    /// `interlock lock release`: releases a lock.
    struct Release: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Release a lock.",
            discussion: """
                Exits with 1 when the token does not hold the lock: the lease expired or was broken. With a token of your own \
                give --fence: then a release that is sent again, and arrives late, does not end a later lease of that token.

                EXAMPLES
                  interlock lock release orders "$token"
                """
        )

        @Argument(help: "The lock's name.", completion: .lockNames)
        var name: String

        @Argument(help: "The token that the lock was acquired with.")
        var token: String

        @Option(help: ArgumentHelp("Only the lease with this fence.", valueName: "number"))
        var fence: Int64?

        @OptionGroup var sidecar: SidecarOptions

        func run() async throws {
            let wasHeld = try await sidecar.withClient("lock release \(name)") { client in
                try await client.locks.release(name, token: token, fence: fence)
            }
            guard wasHeld else {
                let under = fence.map { " under the fence \($0)" } ?? ""
                throw Failure(
                    "the lock \(name) is not held by that token\(under): the lease expired or was broken", .no)
            }
            Terminal.show("The lock \(name) is released.")
        }
    }
}
