internal import InterlockCore
internal import NIOCore

/// Ends a probe in time, and tells a service that is late from a sidecar that is.
struct ProbeDeadline: Sendable {
    private let timeout: Duration
    private let eventLoopGroup: any EventLoopGroup

    private static let clock = ContinuousClock()
    private static let smallestTolerance = Duration.milliseconds(100)

    init(timeout: Duration, eventLoopGroup: any EventLoopGroup) {
        self.timeout = timeout
        self.eventLoopGroup = eventLoopGroup
    }

    /// How late this side may be for a timeout to be the service's fault.
    private var tolerance: Duration { max(Self.smallestTolerance, timeout / 2) }

    /// Runs one probe. When the time is over it is cancelled and was bad; when the task is, nothing is known.
    func within(_ probe: @escaping @Sendable () async throws -> ProbeFinding) async -> ProbeFinding {
        let end = Self.clock.now + timeout
        let finding = await withTaskGroup(of: ProbeFinding?.self) { group in
            group.addTask {
                do {
                    return try await probe()
                } catch {
                    return ProbeFinding(error)
                }
            }
            group.addTask {
                do {
                    try await Task.sleep(until: end, clock: Self.clock)
                    return nil
                } catch {
                    return .unjudged("the probe was stopped")
                }
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
        // Whatever was found: the end of a body that was cancelled looks like any other.
        guard !Task.isCancelled else { return .unjudged("the probe was stopped") }
        if let finding { return finding }
        let lateness = max(Self.clock.now - end, await eventLoopLag())
        guard lateness <= tolerance else {
            let late = DurationText.shortest(.milliseconds(lateness.wholeMilliseconds))
            return .unjudged("this sidecar itself was held up for \(late)")
        }
        return .bad("no whole answer within \(DurationText.shortest(timeout))")
    }

    /// For how long the loop that probes run on lets a task wait.
    private func eventLoopLag() async -> Duration {
        let asked = Self.clock.now
        // A loop that is shut down carries nothing out: there are no probes any more.
        try? await eventLoopGroup.any().submit {}.get()
        return Self.clock.now - asked
    }
}
