internal import InterlockCore
internal import NIOCore

/// Ends a probe on time, and distinguishes a slow service from a delayed sidecar.
struct ProbeDeadline: Sendable {
    private let timeout: Duration
    private let eventLoopGroup: any EventLoopGroup

    private static let clock = ContinuousClock()
    private static let minimumTolerance = Duration.milliseconds(100)

    init(timeout: Duration, eventLoopGroup: any EventLoopGroup) {
        self.timeout = timeout
        self.eventLoopGroup = eventLoopGroup
    }

    /// The maximum delay of this sidecar at which a timeout still counts against the service.
    private var tolerance: Duration { max(Self.minimumTolerance, timeout / 2) }

    /// Runs one probe. If the timeout expires, the probe is cancelled and the finding is bad. If the task is cancelled,
    /// the finding is unjudged.
    func within(_ probe: @escaping @Sendable () async throws -> ProbeFinding) async -> ProbeFinding {
        let end = Self.clock.now + timeout
        let outcome = await withTaskGroup(of: RaceResult.self) { group in
            group.addTask {
                do {
                    return .found(try await probe())
                } catch {
                    return .found(ProbeFinding(error))
                }
            }
            group.addTask {
                do {
                    // The sleep is cancelled if the probe finishes first.
                    try await Task.sleep(until: end, clock: Self.clock)
                    return deadlineReached(since: end)
                } catch {
                    return .found(.unjudged("the probe was stopped"))
                }
            }
            let first = await group.next()
            group.cancelAll()
            return first
        }
        // After cancellation no finding can be trusted, because a cancelled probe may fail as if the service had
        // failed.
        guard let outcome, !Task.isCancelled else { return .unjudged("the probe was stopped") }
        let lateness: Duration
        switch outcome {
        case .found(let finding):
            return finding
        case .deadlineReached(let late, let lag):
            // An event loop that has shut down fails the task, but then there are no more probes.
            lateness = max(late, (try? await lag.get()) ?? .zero)
        }
        guard lateness <= tolerance else {
            let late = DurationText.shortest(.milliseconds(lateness.wholeMilliseconds))
            return .unjudged("this sidecar itself was delayed by \(late)")
        }
        return .bad("no complete response within \(DurationText.shortest(timeout))")
    }

    /// Measures the delay of this sidecar, without the time that the cancelled probe takes to end.
    private func deadlineReached(since end: ContinuousClock.Instant) -> RaceResult {
        let now = Self.clock.now
        return .deadlineReached(lateness: now - end, lag: eventLoopGroup.any().submit { Self.clock.now - now })
    }
}

/// The outcome of the race between a probe and its timeout.
private enum RaceResult: Sendable {
    case found(ProbeFinding)
    /// The timeout expired: `lateness` is the delay with which this sidecar noticed, and `lag` is the delay of a task
    /// on the event loop.
    case deadlineReached(lateness: Duration, lag: EventLoopFuture<Duration>)
}
