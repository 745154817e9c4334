internal import InterlockCore

/// Checks that a sidecar that knows of a trip permits no call until the open time is over, and that no two states of a
/// breaker have the same generation. Otherwise, no sidecar could tell which one is newer.
///
/// A permit or guarded call is a violation if it was invoked after its sidecar reported the breaker open, and granted
/// before the open time ended (or, if the open time has no end, before the next report). A later report of a state
/// other than open excuses the call if the report arrives before the end and at most half a second after the answer.
///
/// When a sidecar is killed, the checker forgets the open states that the sidecar knew. When Redis restarts, loses its
/// data or its clock jumps, the checker forgets all open states, because the latest message may be lost. Open states
/// without an end are also forgotten when a sidecar is cut off from Redis. For one minute after a clock jump, no end is
/// trusted, because sidecars may still report ends by the old clock.
///
/// The recorder must not record a guarded call as passed if the proxy answered it from its cache. Uses
/// O(sidecars + services) memory.
struct BreakerChecker: HistoryChecker {
    static let invariant = Invariant.openBreakers

    /// The tolerance for the end of an open time, in milliseconds, if the clocks agree.
    private static let toleranceMilliseconds: Int64 = 5

    /// The time after a jump of the Redis clock during which sidecars may still report ends by the old clock, in
    /// milliseconds.
    private static let staleReportMilliseconds: Int64 = 60_000

    /// The time that a sidecar may take to subscribe again once Redis is back, in milliseconds.
    private static let resubscribeMilliseconds: Int64 = 1500

    private struct OpenState: Sendable {
        var generation: Int64
        var since: Instant
        var until: Instant?
    }

    private struct Change: Sendable {
        var generation: Int64 = 0
        var state = BreakerSnapshot.State.closed
    }

    private let services: [ServiceRules]
    private let clockDrift: Double
    /// The open state that a sidecar knows, by sidecar and service.
    private var openStates: [Int: [OpenState?]] = [:]
    /// The newest reported change, by service.
    private var newest: [Change]
    private var pending = PendingFindings()
    /// The time when a sidecar that had been cut off last reached Redis again, by sidecar.
    private var lastReconnect: [Int: Instant] = [:]

    init(rules: HistoryRules) {
        services = rules.services
        clockDrift = rules.clockDrift
        newest = rules.services.map { _ in Change() }
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        pending.finalize(at: step.at, into: &violations)
        switch step.kind {
        case .ended(let call, .done(.permitted), _):
            judge(call, "permitted", at: step.at)
        case .ended(let call, .done(.passed), _):
            judge(call, "passed", at: step.at)
        case .breakerSeen(let sidecar, let service, let state, let generation, let until):
            checkGeneration(of: Change(generation: generation, state: state), service, at: step.at, into: &violations)
            let previous = openStates[sidecar]?[service]
            guard generation >= previous?.generation ?? .min else { return }
            if openStates[sidecar] == nil { openStates[sidecar] = services.map { _ in nil } }
            guard state == .open, faults.lastClockJump.advanced(byMilliseconds: Self.staleReportMilliseconds) < step.at
            else {
                openStates[sidecar]?[service] = nil
                pending.explain(service, generation: generation, at: step.at)
                return
            }
            if let previous, previous.generation == generation {
                // More failed probes extend the open time.
                if let end = previous.until { openStates[sidecar]?[service]?.until = until.map { max($0, end) } }
            } else {
                openStates[sidecar]?[service] = OpenState(generation: generation, since: step.at, until: until)
            }
        case .faultBegan(_, let kind, let sidecar):
            forget(kind, sidecar)
            if kind.mayCause(.brokenConnections) { reconnected(sidecar, at: .distantFuture, from: kind) }
        case .faultEnded(_, let kind, let sidecar):
            forget(kind, sidecar)
            if kind.cutsOffRedis { reconnected(sidecar, at: step.at, from: kind) }
        case .forced(let service, _, _):
            // The operator may have changed the state earlier, and the message about the change may be lost.
            for sidecar in openStates.keys { openStates[sidecar]?[service] = nil }
        case .invoked, .ended, .wrote, .linked, .finished:
            return
        }
    }

    /// Records a violation if the call's sidecar knew that the breaker was open. `verb` describes the violation.
    private mutating func judge(_ call: Call, _ verb: String, at instant: Instant) {
        guard let service = call.demand?.service, let open = openStates[call.sidecar]?[service], call.invoked >= open.since else {
            return
        }
        // Once Redis is back, a sidecar reads the changes that it missed, but does not publish them.
        let reconnectedAt = lastReconnect[call.sidecar] ?? .distantPast
        guard open.since > reconnectedAt.advanced(byMilliseconds: Self.resubscribeMilliseconds) else { return }
        // The sidecar measures the remaining time by its own clock.
        let end = open.until.map { until in
            let driftMilliseconds = Int64(Double(until.nanoseconds - open.since.nanoseconds) * clockDrift / 1e6)
            return until.advanced(byMilliseconds: -Self.toleranceMilliseconds - driftMilliseconds)
        }
        guard end.map({ instant < $0 }) ?? true else { return }
        // The sidecar may have read from Redis a change that another sidecar reported earlier.
        guard newest[service].generation <= open.generation || newest[service].state == .open else { return }
        let until = open.until.map { " until \($0.inMilliseconds) ms" } ?? ""
        pending.append(
            PendingFindings.Finding(
                service: service, generation: open.generation, until: open.until,
                violation: Violation(
                    Self.invariant, at: instant,
                    """
                    \(services[service].name): sidecar \(call.sidecar) \(verb) a call of client \(call.client), \
                    requested at \(call.invoked.inMilliseconds) ms, although it knew that the breaker had been open \
                    since \(open.since.inMilliseconds) ms\(until), generation \(open.generation)
                    """)))
    }

    /// Records a change. Reports it if an earlier change to another state has the same generation.
    private mutating func checkGeneration(
        of change: Change, _ service: Int, at instant: Instant, into violations: inout [Violation]
    ) {
        let previous = newest[service]
        if change.generation > previous.generation {
            newest[service] = change
        } else if change.generation == previous.generation, change.state != previous.state {
            newest[service] = change
            report(
                at: instant, into: &violations,
                """
                \(services[service].name): the breaker changed from \(previous.state.rawValue) to \
                \(change.state.rawValue) with the same generation \(change.generation)
                """)
        }
    }

    /// Records when the affected sidecars reached Redis again; `.distantFuture` while a fault resets their connections.
    /// The end of another fault does not reconnect such a sidecar.
    private mutating func reconnected(_ sidecar: Int?, at instant: Instant, from kind: FaultKind) {
        let affectedSidecars = sidecar.map { [$0] } ?? Array(Set(openStates.keys).union(lastReconnect.keys))
        for affected in affectedSidecars where kind.mayCause(.brokenConnections) || lastReconnect[affected] != .distantFuture {
            lastReconnect[affected] = instant
        }
    }

    /// Forgets the open states that a fault may have ended or that sidecars may have forgotten.
    private mutating func forget(_ kind: FaultKind, _ sidecar: Int?) {
        if kind.mayCause(.lostCounts) {
            openStates.removeAll()
            pending.removeAll()
        } else if kind.mayCause(.lostMessages) {
            openStates.removeAll()
        } else if kind.mayCause(.newProcess) {
            if let sidecar { openStates[sidecar] = nil } else { openStates.removeAll() }
        } else if kind.cutsOffRedis {
            for affected in openStates.keys where sidecar == nil || sidecar == affected {
                for service in services.indices {
                    if let open = openStates[affected]?[service], open.until == nil { openStates[affected]?[service] = nil }
                }
            }
        }
    }
}
