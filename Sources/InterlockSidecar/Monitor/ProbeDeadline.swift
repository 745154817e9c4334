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
                    // The deadline itself; the probe that comes first cancels it.
                    try await Task.sleep(until: end, clock: Self.clock)
                    return timeIsOver(since: end)
                } catch {
                    return .found(.unjudged("the probe was stopped"))
                }
            }
            let first = await group.next()
            group.cancelAll()
            return first
        }
        // Whatever was found: the end of a body that was cancelled looks like any other.
        guard let ending, !Task.isCancelled else { return .unjudged("the probe was stopped") }
        let lateness: Duration
        switch ending {
        case .found(let finding):
            return finding
        case .timeIsOver(let late, let lag):
            // A loop that is shut down carries nothing out: there are no probes any more.
            lateness = max(late, (try? await lag.get()) ?? .zero)
        }
        guard lateness <= tolerance else {
            let late = DurationText.shortest(.milliseconds(lateness.wholeMilliseconds))
            return .unjudged("this sidecar itself was held up for \(late)")
        }
        return .bad("no whole answer within \(DurationText.shortest(timeout))")
    }

    /// How late this side is, not what it is waiting for: a probe that takes its time to end says nothing of that.
    private func timeIsOver(since end: ContinuousClock.Instant) -> Ending {
        let now = Self.clock.now
        return .timeIsOver(lateness: now - end, lag: eventLoopGroup.any().submit { Self.clock.now - now })
    }
}

/// How the wait for a probe ended.
private enum Ending: Sendable {
    case found(ProbeFinding)
    /// This side saw it so late, and the loop that probes run on lets a task wait for so long.
    case timeIsOver(lateness: Duration, lag: EventLoopFuture<Duration>)
}
