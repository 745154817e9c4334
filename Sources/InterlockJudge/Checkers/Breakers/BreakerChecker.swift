internal import InterlockCore

/// No call is permitted after a trip has reached its sidecar, before the open time is over; and no two states of a breaker have
/// the same generation, for then nobody could tell which is the newer.
///
/// A permit or a guarded call is judged when it was asked for after the sidecar said that the breaker is open, and granted
/// before the time until which it stays open by itself; when there is no such time, until there is other news. It is excused by
/// news of a later state that is not open, when they come before that time and at most half a second after the answer. What a
/// sidecar knew is forgotten when it is killed, and everywhere when Redis was wiped or its clock jumped; what has no end of its
/// own also when Redis was away, for then news get lost; and all when Redis died, with which go the news of its last moment, as
/// that an outage is over. For a minute after a jump of the clock ends are not believed: what was
/// told before it may be told again.
///
/// A guarded call that was answered out of what the proxy remembers must not count as passed. Bounded by sidecars and
/// services.
struct BreakerChecker: HistoryChecker {
    static let promise = Promise.openBreakers

    /// How exactly the end of an open time is known, in ms, where clocks agree.
    private static let blur: Int64 = 5

    /// For how many ms after a jump of Redis' clock ends may be told that another clock had set.
    private static let oldNews: Int64 = 60_000

    /// For how many ms after Redis is back a sidecar may not have subscribed again.
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
    /// By sidecar and service: what it knows to be open.
    private var known: [Int: [Open?]] = [:]
    /// By service: the newest change that was heard of.
    private var newest: [Change]
    private var doubtful = DoubtfulFindings()
    /// When Redis last came back, for each sidecar that was cut off.
    private var lastReturn: [Int: Instant] = [:]

    init(rules: HistoryRules) {
        services = rules.services
        clockDrift = rules.clockDrift
        newest = rules.services.map { _ in Change() }
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        doubtful.settle(at: step.at, into: &violations)
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
                // Further bad probes put the end off.
                if let end = before.until { known[sidecar]?[service]?.until = until.map { max($0, end) } }
            } else {
                known[sidecar]?[service] = Open(generation: generation, since: step.at, until: until)
            }
        case .faultBegan(_, let kind, let sidecar):
            forget(kind, sidecar)
            // Connections go and come back for as long as it lasts.
            if kind == .reset { returned(sidecar, at: .distantFuture, from: kind) }
        case .faultEnded(_, let kind, let sidecar):
            forget(kind, sidecar)
            if kind.cutsOffRedis { returned(sidecar, at: step.at, from: kind) }
        case .forced(let service, _, _):
            // An operator may have said otherwise, in news that were lost.
            for sidecar in known.keys { known[sidecar]?[service] = nil }
        case .invoked, .ended, .wrote, .linked:
            return
        }
    }

    mutating func finish(open calls: [Call], at end: Instant, faults: FaultLog, into violations: inout [Violation]) {
        doubtful.settle(at: end, into: &violations)
    }

    private mutating func judge(_ call: Call, _ word: String, at instant: Instant) {
        guard let service = call.demand?.service, let open = known[call.sidecar]?[service], call.invoked >= open.since else {
            return
        }
        // What changed while its subscription was down it reads when Redis is back, and nobody is told.
        guard open.since > (lastReturn[call.sidecar] ?? .distantPast).advanced(byMilliseconds: Self.subscribing) else { return }
        // A sidecar counts the time that is left by its own clock.
        let end = open.until.map { until in
            let drift = Int64(Double(until.nanoseconds - open.since.nanoseconds) * clockDrift / 1e6)
            return until.advanced(byMilliseconds: -Self.blur - drift)
        }
        guard end.map({ instant < $0 }) ?? true else { return }
        // It may have read from Redis what another sidecar was told before.
        guard newest[service].generation <= open.generation || newest[service].state == .open else { return }
        let until = open.until.map { " until \($0.inMilliseconds) ms" } ?? ""
        doubtful.append(
            DoubtfulFindings.Finding(
                service: service, generation: open.generation, until: open.until,
                violation: Violation(
                    Self.promise, at: instant,
                    """
                    \(services[service].name): a call of client \(call.client) was \(word) at sidecar \(call.sidecar), asked for at \
                    \(call.invoked.inMilliseconds) ms; since \(open.since.inMilliseconds) ms that sidecar knew it open\(until), generation \
                    \(open.generation)
                    """)))
    }

    private mutating func compare(_ change: Change, _ service: Int, at instant: Instant, into violations: inout [Violation]) {
        let before = newest[service]
        if change.generation > before.generation {
            newest[service] = change
        } else if change.generation == before.generation, change.state != before.state {
            newest[service] = change
            violations.append(
                Violation(
                    Self.promise, at: instant,
                    """
                    \(services[service].name): it went from \(before.state.rawValue) to \(change.state.rawValue) under the same generation \
                    \(change.generation)
                    """))
        }
    }

    /// Who is being cut off again and again is not back for good when something else is over.
    private mutating func returned(_ sidecar: Int?, at instant: Instant, from kind: FaultKind) {
        let places = sidecar.map { [$0] } ?? Array(Set(known.keys).union(lastReturn.keys))
        for place in places where kind == .reset || lastReturn[place] != .distantFuture { lastReturn[place] = instant }
    }

    private mutating func forget(_ kind: FaultKind, _ sidecar: Int?) {
        if kind.mayForgetCounts {
            known.removeAll()
            doubtful.removeAll()
        } else if kind == .redisRestart {
            known.removeAll()
        } else if kind == .kill {
            if let sidecar { known[sidecar] = nil } else { known.removeAll() }
        } else if kind.cutsOffRedis {
            for place in known.keys where sidecar == nil || sidecar == place {
                for service in services.indices {
                    if let open = known[place]?[service], open.until == nil { known[place]?[service] = nil }
                }
            }
        }
    }
}
