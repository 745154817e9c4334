import ArgumentParser

/// `interlock status`: a sidecar and its fleet at a glance.
struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show a sidecar, its Redis, its fleet, the locks and the services.",
        discussion: """
            Exits with 69 when no sidecar answers, or when it answers and its Redis is away.

            EXAMPLES
              interlock status
              interlock status --sidecar 10.0.0.5:7379 --json
            """
    )

    @OptionGroup var sidecar: SidecarOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let reading = try await SidecarConnection.open(sidecar) { try await SidecarReading(from: $0) }
        try Terminal.show(reading, asJSON: output.json)
        for warning in reading.warnings { Terminal.tell("interlock: warning: \(warning)") }
        guard reading.redis.isUp else {
            throw Failure(
                "the sidecar at \(reading.sidecar.address) cannot reach its Redis: \(reading.redis.failure)",
                exitCode: .unavailable)
        }
    }
}
