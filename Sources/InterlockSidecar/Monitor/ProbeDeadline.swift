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

    /// The maximum delay of this sidecar with which a timeout still counts against the service.
    private var tolerance: Duration { max(Self.minimumTolerance, timeout / 2) }

    /// Runs one probe. If the timeout expires, the probe is cancelled and the finding is bad. If the task is cancelled,
    /// the finding is unjudged.
    func within(_ probe: @escaping @Sendable () async throws -> ProbeFinding) async -> ProbeFinding {
        let deadline = Self.clock.now + timeout
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
                    try await Task.sleep(until: deadline, clock: Self.clock)
                    return deadlineReached(since: deadline)
                } catch {
                    return .found(.unjudged("the probe was stopped"))
                }
            }
            let firstResult = await group.next()
            group.cancelAll()
            return firstResult
        }
        // After cancellation no finding can be trusted, because a cancelled probe may fail as if the service had
        // failed.
        guard let outcome, !Task.isCancelled else { return .unjudged("the probe was stopped") }
        let delay: Duration
        switch outcome {
        case .found(let finding):
            return finding
        case .deadlineReached(let lateness, let lag):
            // The task fails only if the event loop has shut down, in which case no probe follows.
            delay = max(lateness, (try? await lag.get()) ?? .zero)
        }
        guard delay <= tolerance else {
            let delayText = DurationText.shortest(.milliseconds(delay.wholeMilliseconds))
            return .unjudged("this sidecar itself was delayed by \(delayText)")
        }
        return .bad("no complete response within \(DurationText.shortest(timeout))")
    }

    /// Measures the delay of this sidecar, without the time that the cancelled probe takes to end.
    private func deadlineReached(since deadline: ContinuousClock.Instant) -> RaceResult {
        let now = Self.clock.now
        return .deadlineReached(lateness: now - deadline, lag: eventLoopGroup.any().submit { Self.clock.now - now })
    }
}

/// The outcome of the race between a probe and its timeout.
private enum RaceResult: Sendable {
    case found(ProbeFinding)
    /// The timeout expired: `lateness` is the delay with which this sidecar noticed, and `lag` is the delay of a task
    /// on the event loop.
    case deadlineReached(lateness: Duration, lag: EventLoopFuture<Duration>)
}
