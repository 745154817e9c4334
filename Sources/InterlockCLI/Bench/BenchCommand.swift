import ArgumentParser
import InterlockLoad

/// `interlock bench`: load, faults and judgement.
struct BenchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench",
        abstract: "Drive sidecars with load, break things, and judge what happened.",
        discussion: """
            Operations are due at a steady rate, whether sidecars keep up or not, and latencies count from when an operation \
            was due. Everything that clients saw is judged: fences, exclusion, limits, breakers, waits, recovery. Without \
            --sidecars it starts a fleet and a Redis of its own, and ends them.

            EXIT CODES
              0   done, and no promise was broken
              1   a promise was broken: see the table's violations
              64  the command line cannot be understood
              69  the sidecars cannot be reached, or cannot be started

            EXAMPLES
              interlock bench lock --rate 2000 --names 100 --skew zipf:1.1
              interlock bench mixed --fleet 4 --faults all --duration 5m --report bench.html
              interlock bench limit --sidecars 10.0.0.7:7379 10.0.0.8:7379 --service catalog
            """,
        subcommands: [
            BenchLock.self, BenchLimit.self, BenchPermit.self, BenchProxy.self, BenchMixed.self, BenchSimulate.self,
            BenchCheck.self,
        ]
    )
}

/// `interlock bench lock`.
struct BenchLock: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock", abstract: "Lock cycles: acquire, hold, release.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.lock) }
}

/// `interlock bench limit`.
struct BenchLimit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "limit", abstract: "Limit decisions: LIMIT.TAKE.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.limit) }
}

/// `interlock bench permit`.
struct BenchPermit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "permit", abstract: "Guarded calls: a permit, a call, its report.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.permit) }
}

/// `interlock bench proxy`.
struct BenchProxy: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "proxy", abstract: "Requests through the guarded proxy.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.proxy) }
}

/// `interlock bench mixed`.
struct BenchMixed: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mixed",
        abstract: "All of these at once, by clients that also forget, overstay, and vanish.")

    @OptionGroup var load: LoadOptions

    func run() async throws { try await load.run(.mixed) }
}
