import ArgumentParser
import InterlockClient
import InterlockCommandLine
import InterlockCore

extension LockCommand {
    /// `interlock lock acquire`: acquires a lock.
    struct Acquire: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Acquire a lock.",
            usage: "interlock lock acquire <name> [<options>]",
            discussion: """
                Prints the token (to renew and release the lock), the fence (to pass to whatever the lock protects) and how \
                long the lease is valid. The lease is not renewed automatically; for that, use `interlock run`. Exits with 1 \
                if another client holds the lock. With --json, prints one object in every case; check "acquired" first.

                EXAMPLES
                  interlock lock acquire orders
                  interlock lock acquire orders --ttl 2m --wait 10s --label nightly-import
                  token=$(interlock lock acquire orders --print token) || exit
                """
        )

        @Argument(help: "The lock's name.", completion: .lockNames)
        var name: String

        @Option(
            help: .duration("How long the lease lasts, such as 500ms, 30s or 2m.", default: .standardLease),
            transform: DurationArgument.init(argument:))
        var ttl = DurationArgument.standardLease

        @Option(
            help: .duration("How long to wait for the lock if it is held, such as 500ms or 10s.", default: .noWait),
            transform: DurationArgument.init(argument:))
        var wait = DurationArgument.noWait

        @Option(
            help: ArgumentHelp(
                "Your own token. Acquiring again with it renews the same lease, so a retry is safe.", valueName: "token"))
        var owner: String?

        @Option(
            help: ArgumentHelp("The holder's name, as others see it: this job or host, without spaces.", valueName: "name"))
        var label: String?

        @OptionGroup var sharing: SharingOptions
        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        @Option(
            name: .customLong("print"),
            help: ArgumentHelp("Print only this part, and nothing if the lock was not acquired.", valueName: "part"))
        var part: LockGrant.Part?

        func validate() throws {
            guard part == nil || !output.json else { throw ValidationError("--json and --print cannot be used together") }
        }

        func run() async throws {
            let grant: LockGrant
            do {
                grant = LockGrant(try await acquire())
            } catch let failure as CommandFailure where output.json {
                Terminal.show(try JSONOutput.text(LockRefusal(name: name, failure)))
                throw failure
            }
            if let part { Terminal.show(grant[part]) } else { try Terminal.show(grant, asJSON: output.json) }
        }

        private func acquire() async throws -> Lease {
            try await sidecar.withClient("lock acquire \(name)") { client in
                let lease = try await client.locks.acquire(
                    name, ttl: ttl.duration, wait: wait.duration, mode: sharing.mode, owner: owner, label: label)
                guard let lease else { throw CommandFailure(refusal(await WaitSummary(wait.duration, at: client)), .no) }
                return lease
            }
        }

        /// Returns the reason why the lock was not acquired, and what to do about it.
        private func refusal(_ wait: WaitSummary?) -> String {
            let hint = "see `interlock lock show \(name)`"
            guard let wait else {
                return "the lock \(name) is held by another client: use --wait to wait for it, or \(hint)"
            }
            let advice = wait.mayBeLonger ? "use a longer --wait, or \(hint)" : hint
            return "the lock \(name) is still held after \(wait.description): \(advice)"
        }
    }
}

/// The options that allow other clients to hold the lock too.
struct SharingOptions: ParsableArguments {
    @Flag(help: "Acquire the lock as a reader: other readers may hold it too, but no writer.")
    var shared = false

    @Option(help: ArgumentHelp("Acquire one slot of the lock, as a semaphore with n slots.", valueName: "n"))
    var permits: Int?

    var isExclusive: Bool { !shared && permits == nil }

    func validate() throws {
        guard !shared || permits == nil else { throw ValidationError("--shared and --permits cannot be used together") }
        guard permits.map(LockMode.slots.contains) ?? true else {
            let slots = LockMode.slots
            throw ValidationError(
                "--permits: expected a whole number from \(slots.lowerBound) to \(slots.upperBound), got \(permits ?? 0)")
        }
    }

    var mode: LockMode { permits.map { .permits($0) } ?? (shared ? .shared : .exclusive) }
}

extension LockCommand {
    /// `interlock lock renew`: renews a lease.
    struct Renew: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Renew a lease.",
            usage: "interlock lock renew <name> <token> [<options>]",
            discussion: """
                Prints how long the lease is valid from now on. Exits with 1 if the token does not hold the lock: the lease \
                expired or was broken, or the token or the fence is wrong.

                If you use your own token, also pass --fence. A retried renewal that arrives late then cannot extend a later \
                lease of that token.

                EXAMPLES
                  interlock lock renew orders "$token" --ttl 30s
                """
        )

        @Argument(help: "The lock's name.", completion: .lockNames)
        var name: String

        @Argument(help: "The token of the lease.")
        var token: String

        @Option(
            help: .duration("How long the lease lasts from now on, such as 500ms, 30s or 2m.", default: .standardLease),
            transform: DurationArgument.init(argument:))
        var ttl = DurationArgument.standardLease

        @Option(help: ArgumentHelp("Apply only to the lease with this fence.", valueName: "number"))
        var fence: Int64?

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let validity = try await sidecar.withClient("lock renew \(name)") { client in
                try await client.locks.renew(name, token: token, ttl: ttl.duration, fence: fence)
            }
            guard let validity else {
                throw CommandFailure(
                    "the token does not hold the lock \(name): the lease expired or was broken, or the token or fence is "
                        + "wrong; stop the work that it protects, then acquire the lock again", .no)
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
            usage: "interlock lock release <name> <token> [<options>]",
            discussion: """
                Exits with 1 if the token does not hold the lock: the lease expired or was broken, or the token or the fence is \
                wrong.

                If you use your own token, also pass --fence. A retried release that arrives late then cannot end a later \
                lease of that token.

                EXAMPLES
                  interlock lock release orders "$token"
                """
        )

        @Argument(help: "The lock's name.", completion: .lockNames)
        var name: String

        @Argument(help: "The token of the lease.")
        var token: String

        @Option(help: ArgumentHelp("Apply only to the lease with this fence.", valueName: "number"))
        var fence: Int64?

        @OptionGroup var sidecar: SidecarOptions

        func run() async throws {
            let wasHeld = try await sidecar.withClient("lock release \(name)") { client in
                try await client.locks.release(name, token: token, fence: fence)
            }
            guard wasHeld else {
                let suffix = fence.map { " with the fence \($0)" } ?? ""
                throw CommandFailure(
                    "the lock \(name) is not held by that token\(suffix): the lease expired or was broken, or the token or "
                        + "fence is wrong", .no)
            }
            Terminal.show("The lock \(name) is released.")
        }
    }
}
