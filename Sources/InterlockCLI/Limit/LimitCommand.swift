import ArgumentParser
import InterlockClient
import InterlockCommandLine

/// `interlock limit`: rate limits.
struct LimitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "limit",
        abstract: "Count calls against rate limits, and inspect them.",
        discussion: """
            The services and their limits are those of the sidecar's configuration; `interlock breaker list` names them.

            EXAMPLES
              interlock limit take catalog --wait 5s && curl https://api.example.com/items
              interlock limit show catalog
            """,
        subcommands: [Take.self, Show.self]
    )
}

extension LimitCommand {
    /// `interlock limit take`: counts a call.
    struct Take: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Count one call against the limits of a service.",
            discussion: """
                The call counts against all limits of the service or against none. Prints the window with the least left; \
                exits with 1 when a limit is used up: then nothing was counted. A cost above a limit can never be granted: \
                that exits with 65.

                EXAMPLES
                  interlock limit take catalog
                  interlock limit take catalog --cost 5 --subject tenant-7 --wait 2s
                """
        )

        @Argument(help: "The service's name.", completion: .serviceNames)
        var service: String

        @Option(help: ArgumentHelp("How many calls this one counts as.", valueName: "count"))
        var cost = 1

        @Option(help: ArgumentHelp("The tenant, user or address to count it for.", valueName: "name"))
        var subject: String?

        @Option(
            help: .duration("How long to wait until the limits allow it: 500ms, 2s.", default: .noWait),
            transform: DurationArgument.init(argument:))
        var wait = DurationArgument.noWait

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let (limit, ended) = try await sidecar.withClient("limit take \(service)") { client in
                let limit = try await client.limits.take(
                    from: service, cost: cost, subject: subject, wait: wait.duration)
                return (limit, limit.isTaken ? nil : await EndedWait(wait.duration, at: client))
            }
            let reading = LimitReading(limit, of: service)
            try Terminal.show(reading, asJSON: output.json)
            guard !limit.isTaken else { return }
            guard limit.retryAfter != nil else {
                // An older sidecar does not report this case itself.
                throw Failure(
                    "limit take \(service): a call of cost \(cost) can never be granted: the limit is \(limit.capacity)", .invalid
                )
            }
            let name = limit.limit.map { "the limit \($0)" } ?? "the limit"
            throw Failure(
                "\(name) of \(service) is used up: try again in \(reading.retryAfter)\(Self.advice(ended))", .no)
        }

        /// Returns the advice for a refused call. A call is refused at once if the limits cannot allow it within its
        /// wait.
        private static func advice(_ wait: EndedWait?) -> String {
            guard let wait else { return ", or wait with --wait" }
            return wait.mayBeLonger ? ", or wait longer with --wait" : "; a wait is at most \(wait.description)"
        }
    }
}

extension LimitCommand {
    /// `interlock limit show`: shows the remaining capacity of each limit.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show what is left of the limits of a service, without counting a call.",
            discussion: """
                Prints each limit that applies to a call; as JSON also the numbers of the one that binds.

                EXAMPLES
                  interlock limit show catalog
                  interlock limit show catalog --subject tenant-7 --json
                  interlock limit show edge --descriptor remote_address=10.0.0.1
                """,
            aliases: ["info"]
        )

        @Argument(help: "The service's name.", completion: .serviceNames)
        var service: String

        @Option(help: ArgumentHelp("The tenant, user or address to look at.", valueName: "name"))
        var subject: String?

        @Option(
            help: ArgumentHelp(
                "The descriptor to look at, of the domain that is named instead of a service.", valueName: "key=value,..."))
        var descriptor: String?

        @OptionGroup var sidecar: SidecarOptions
        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard subject == nil || descriptor == nil else {
                throw ValidationError("--subject is of a service and --descriptor of a domain; say one of them")
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
                let all = binding.limit == nil ? [] : try await client.limits.list(of: service, subject: subject)
                return LimitListing(binding, of: service, all: all)
            }
            try Terminal.show(listing, asJSON: output.json)
        }
    }
}
