internal import InterlockCore

/// Once a sidecar knows of a trip, it permits no call until the open time is over. No two states of a breaker have the
/// same generation, because then no sidecar could tell which is newer.
///
/// A permit or guarded call is judged if it was invoked after its sidecar reported the breaker open, and granted before
/// the open time ended (or before other news, if it has no end). News of a later state that is not open excuses it if
/// that news arrives before the end and at most half a second after the answer.
///
/// The knowledge of a sidecar is dropped when it is killed. All knowledge is dropped when Redis loses its data, its
/// clock jumps, or it restarts, because the latest news may be lost with it. States without an end are also dropped
/// when a sidecar is cut off from Redis. For one minute after a jump of the clock no end is trusted, because old ends
/// may be reported again.
///
/// A guarded call that the proxy answered from its cache must not count as passed. Memory is bounded by sidecars and
/// services.
struct BreakerChecker: HistoryChecker {
    static let promise = Promise.openBreakers

    /// The accuracy of the end of an open time, in ms, if clocks agree.
    private static let blur: Int64 = 5

    /// The time after a jump of Redis' clock in which ends by the old clock may be reported, in ms.
    private static let oldNews: Int64 = 60_000

    /// The time that a sidecar may take to subscribe again once Redis is back, in ms.
    private static let subscribing: Int64 = 1500

    private struct Open: Sendable {
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
    private var known: [Int: [Open?]] = [:]
    /// The newest reported change, by service.
    private var newest: [Change]
    private var doubtful = DoubtfulFindings()
    /// The time at which Redis last came back, by sidecar that had been cut off.
    private var lastReturn: [Int: Instant] = [:]

    init(rules: HistoryRules) {
        services = rules.services
        clockDrift = rules.clockDrift
        newest = rules.services.map { _ in Change() }
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        doubtful.finalize(at: step.at, into: &violations)
        switch step.what {
        case .ended(let call, .done(.permitted), _):
            judge(call, "permitted", at: step.at)
        case .ended(let call, .done(.passed), _):
            judge(call, "passed", at: step.at)
        case .breakerSeen(let sidecar, let service, let state, let generation, let until):
            compare(Change(generation: generation, state: state), service, at: step.at, into: &violations)
            let before = known[sidecar]?[service]
            guard generation >= before?.generation ?? .min else { return }
            if known[sidecar] == nil { known[sidecar] = services.map { _ in nil } }
            guard state == .open, faults.lastClockJump.advanced(byMilliseconds: Self.oldNews) < step.at else {
                known[sidecar]?[service] = nil
                doubtful.explain(service, generation: generation, at: step.at)
                return
            }
            if let before, before.generation == generation {
                // More failed probes extend the open time.
                if let end = before.until { known[sidecar]?[service]?.until = until.map { max($0, end) } }
            } else {
                known[sidecar]?[service] = Open(generation: generation, since: step.at, until: until)
            }
        case .faultBegan(_, let kind, let sidecar):
            forget(kind, sidecar)
            if kind.mayCause(.brokenConnections) { returned(sidecar, at: .distantFuture, from: kind) }
        case .faultEnded(_, let kind, let sidecar):
            forget(kind, sidecar)
            if kind.cutsOffRedis { returned(sidecar, at: step.at, from: kind) }
        case .forced(let service, _, _):
            // The operator may have changed the state earlier, and that news may be lost.
            for sidecar in known.keys { known[sidecar]?[service] = nil }
        case .invoked, .ended, .wrote, .linked, .finished:
            return
        }
    }

    private mutating func judge(_ call: Call, _ word: String, at instant: Instant) {
        guard let service = call.demand?.service, let open = known[call.sidecar]?[service], call.invoked >= open.since else {
            return
        }
        // A sidecar reads the changes that it missed once Redis is back, and does not publish them.
        guard open.since > (lastReturn[call.sidecar] ?? .distantPast).advanced(byMilliseconds: Self.subscribing) else { return }
        // The sidecar measures the remaining time by its own clock.
        let end = open.until.map { until in
            let drift = Int64(Double(until.nanoseconds - open.since.nanoseconds) * clockDrift / 1e6)
            return until.advanced(byMilliseconds: -Self.blur - drift)
        }
        guard end.map({ instant < $0 }) ?? true else { return }
        // The sidecar may have read from Redis a change that another sidecar reported earlier.
        guard newest[service].generation <= open.generation || newest[service].state == .open else { return }
        let until = open.until.map { " until \($0.inMilliseconds) ms" } ?? ""
        doubtful.append(
            DoubtfulFindings.Finding(
                service: service, generation: open.generation, until: open.until,
                violation: Violation(
                    Self.promise, at: instant,
                    """
                    \(services[service].name): sidecar \(call.sidecar) \(word) a call of client \(call.client), requested at \
                    \(call.invoked.inMilliseconds) ms, although it knew that the breaker was open since \(open.since.inMilliseconds) ms\(until), \
                    generation \(open.generation)
                    """)))
    }

    private mutating func compare(_ change: Change, _ service: Int, at instant: Instant, into violations: inout [Violation]) {
        let before = newest[service]
        if change.generation > before.generation {
            newest[service] = change
        } else if change.generation == before.generation, change.state != before.state {
            newest[service] = change
            report(
                at: instant, into: &violations,
                """
                \(services[service].name): the breaker changed from \(before.state.rawValue) to \(change.state.rawValue) with the same \
                generation \(change.generation)
                """)
        }
    }

    // A sidecar whose connections are reset repeatedly is not back when another fault ends.
    private mutating func returned(_ sidecar: Int?, at instant: Instant, from kind: FaultKind) {
        let affectedSidecars = sidecar.map { [$0] } ?? Array(Set(known.keys).union(lastReturn.keys))
        for affected in affectedSidecars where kind.mayCause(.brokenConnections) || lastReturn[affected] != .distantFuture {
            lastReturn[affected] = instant
        }
    }

    private mutating func forget(_ kind: FaultKind, _ sidecar: Int?) {
        if kind.mayCause(.lostCounts) {
            known.removeAll()
            doubtful.removeAll()
        } else if kind.mayCause(.lostNews) {
            known.removeAll()
        } else if kind.mayCause(.newProcess) {
            if let sidecar { known[sidecar] = nil } else { known.removeAll() }
        } else if kind.cutsOffRedis {
            for affected in known.keys where sidecar == nil || sidecar == affected {
                for service in services.indices {
                    if let open = known[affected]?[service], open.until == nil { known[affected]?[service] = nil }
                }
            }
        }
    }
}
