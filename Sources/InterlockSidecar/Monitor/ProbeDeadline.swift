internal import InterlockCore
internal import NIOCore

/// Ends a probe on time, and distinguishes a slow service from a delayed sidecar.
struct ProbeDeadline: Sendable {
    private let timeout: Duration
    private let eventLoopGroup: any EventLoopGroup

    private static let clock = ContinuousClock()
    private static let smallestTolerance = Duration.milliseconds(100)

    init(timeout: Duration, eventLoopGroup: any EventLoopGroup) {
        self.timeout = timeout
        self.eventLoopGroup = eventLoopGroup
    }

    /// The longest delay of this sidecar with which a timeout still counts against the service.
    private var tolerance: Duration { max(Self.smallestTolerance, timeout / 2) }

    /// Runs one probe. If the time is over, the probe is cancelled and the finding is bad. If the task is cancelled,
    /// the finding is unjudged.
    func within(_ probe: @escaping @Sendable () async throws -> ProbeFinding) async -> ProbeFinding {
        let end = Self.clock.now + timeout
        let ending = await withTaskGroup(of: Ending.self) { group in
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
        // No finding can be trusted after cancellation, because a cancelled body may end like any other.
        guard let ending, !Task.isCancelled else { return .unjudged("the probe was stopped") }
        let lateness: Duration
        switch ending {
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

    /// Measures the delay of this sidecar only, without the time that a cancelled probe takes to end.
    private func deadlineReached(since end: ContinuousClock.Instant) -> Ending {
        let now = Self.clock.now
        return .deadlineReached(lateness: now - end, lag: eventLoopGroup.any().submit { Self.clock.now - now })
    }
}

/// The end of the wait for a probe.
private enum Ending: Sendable {
    case found(ProbeFinding)
    /// The time is over: `lateness` is the delay with which this sidecar noticed, and `lag` the delay of a task on the
    /// event loop.
    case deadlineReached(lateness: Duration, lag: EventLoopFuture<Duration>)
}
