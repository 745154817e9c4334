import ArgumentParser
import InterlockClient
import InterlockCommandLine

/// `interlock limit`: rate limits.
struct LimitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "limit",
        abstract: "Take from and inspect rate limits.",
        discussion: """
            Services and their limits are defined in the sidecar's configuration; `interlock breaker list` lists the services.

            EXAMPLES
              interlock limit take catalog --wait 5s && curl https://api.example.com/
              interlock limit show catalog
            """,
        subcommands: [Take.self, Show.self]
    )
}

extension LimitCommand {
    /// `interlock limit take`: counts a call against the limits of a service.
    struct Take: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Count one call against the limits of a service.",
            usage: "interlock limit take <service> [<options>]",
            discussion: """
                Counts the call against all limits of the service, or against none of them. Prints the limit with the least \
                remaining capacity. Exits with 1 if a limit is used up, and with 65 if the cost exceeds a limit and can never \
                be granted; nothing is counted then.

                EXAMPLES
                  interlock limit take catalog
                  interlock limit take catalog --cost 5 --subject tenant-7 --wait 2s
                """
        )

        @Argument(help: "The service's name.", completion: .serviceNames)
        var service: String

        @Option(help: ArgumentHelp("The number of calls to count.", valueName: "count"))
        var cost = 1

        @Option(help: ArgumentHelp("The tenant, user or address that makes the call.", valueName: "name"))
        var subject: String?

        @Option(
            help: .duration("How long to wait until the limits allow the call, such as 500ms or 2s.", default: .noWait),
            transform: DurationArgument.init(argument:))
        var wait = DurationArgument.noWait

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let (decision, wait) = try await sidecar.withClient("limit take \(service)") { client in
                let decision = try await client.limits.take(
                    from: service, cost: cost, subject: subject, wait: self.wait.duration)
                return (decision, decision.isAllowed ? nil : await WaitSummary(self.wait.duration, at: client))
            }
            let details = LimitDetails(decision, of: service)
            try Terminal.show(details, asJSON: output.json)
            guard !decision.isAllowed else { return }
            guard decision.retryAfter != nil else {
                // An older sidecar does not report this case itself.
                throw CommandFailure(
                    "limit take \(service): a call of cost \(cost) can never be granted: the limit is \(decision.limit)",
                    .invalid)
            }
            let name = decision.limitName.map { "the limit \($0)" } ?? "the limit"
            throw CommandFailure(
                "\(name) of \(service) is used up: retry in \(details.retryAfter)\(Self.advice(wait))", .no)
        }

        /// Returns the advice for a refused call. The sidecar refuses a call immediately if the limits cannot allow it
        /// within its wait.
        private static func advice(_ wait: WaitSummary?) -> String {
            guard let wait else { return ", or use --wait" }
            return wait.mayBeLonger ? ", or use a longer --wait" : "; the longest wait is \(wait.description)"
        }
    }
}

extension LimitCommand {
    /// `interlock limit show`: shows the remaining capacity of each limit.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the remaining capacity of a service's limits.",
            usage: "interlock limit show <service> [<options>]",
            discussion: """
                Prints each limit that applies to a call, without counting one. With --json, also prints the numbers of the \
                limit with the least remaining capacity.

                EXAMPLES
                  interlock limit show catalog
                  interlock limit show catalog --subject tenant-7 --json
                  interlock limit show edge --descriptor remote_address=10.0.0.1
                """,
            aliases: ["info"]
        )

        @Argument(help: "The name of the service, or of the domain with --descriptor.", completion: .serviceNames)
        var service: String

        @Option(help: ArgumentHelp("The tenant, user or address to show.", valueName: "name"))
        var subject: String?

        @Option(
            help: ArgumentHelp(
                "The descriptor to show; then the argument names a domain instead of a service.", valueName: "key=value,..."))
        var descriptor: String?

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard subject == nil || descriptor == nil else {
                throw ValidationError("--subject belongs to a service and --descriptor to a domain; use only one of them")
            }
        }

        func run() async throws {
            let listing = try await sidecar.withClient("limit show \(service)") { client in
                if let descriptor {
                    let decision = try await client.limits.peek(at: service, descriptor: descriptor)
                    return LimitListing(decision, of: service, all: [])
                }
                let binding = try await client.limits.peek(at: service, subject: subject)
                // An older sidecar omits the name, and does not support `LIMIT.LIST` either.
                let limits = binding.limitName == nil ? [] : try await client.limits.list(of: service, subject: subject)
                return LimitListing(binding, of: service, all: limits)
            }
            try Terminal.show(listing, asJSON: output.json)
        }
    }
}
