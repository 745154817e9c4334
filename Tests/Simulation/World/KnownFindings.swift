public import InterlockCore
public import InterlockJudge

/// A fault as a story tells it.
public struct ToldFault: Sendable {
    public var number: Int
    public var kind: FaultKind
    /// `nil`: it concerns all.
    public var sidecar: Int?
    public var began: Instant
    /// `nil`: it was still on when the world ended.
    public var ended: Instant?
    /// By how many milliseconds Redis' clock was moved, the most of several steps.
    public var ahead: Int64 = 0
    public var words: String

    func lasts(atLeast milliseconds: Int64) -> Bool {
        ended.map { $0 >= began.advanced(byMilliseconds: milliseconds) } ?? true
    }
}

/// A call as a story tells it.
public struct ToldCall: Sendable {
    public var client: Int
    public var sidecar: Int
    public var operation: Operation
    public var began: Instant
    /// `nil`: it was under way when the world ended.
    public var ended: Instant?
    public var ending: OperationEnding?

    /// In the order in which they began.
    static func all(of events: [HistoryEvent]) -> [ToldCall] {
        var calls: [ToldCall] = []
        var open: [Int: Int] = [:]
        for event in events {
            switch event.what {
            case .invoked(let client, let sidecar, let operation):
                open[client] = calls.count
                calls.append(ToldCall(client: client, sidecar: sidecar, operation: operation, began: event.at))
            case .ended(let client, let ending):
                guard let place = open.removeValue(forKey: client) else { continue }
                calls[place].ended = event.at
                calls[place].ending = ending
            default: continue
            }
        }
        return calls
    }

    func lasts(atLeast milliseconds: Int64) -> Bool {
        ended.map { $0 >= began.advanced(byMilliseconds: milliseconds) } ?? true
    }

    /// Whether it is for the lock or the service that a finding names.
    func isAbout(_ violation: Violation, services: [String]) -> Bool {
        if let service = operation.service { return violation.finding.hasPrefix(services[service % services.count] + ":") }
        switch operation {
        case .acquire(let lock, _, _, _, _), .renew(let lock, _, _), .release(let lock, _):
            return violation.finding.hasPrefix("lock \(lock):")
        default: return false
        }
    }

    func isUnderWay(at instant: Instant) -> Bool { began <= instant && (ended.map { $0 >= instant } ?? true) }
}

/// A lock that was found to be somebody's who had been told that he has not got it.
struct Ghost: Sendable {
    var lock: Int
    var at: Instant
    /// When it was last seen so.
    var until: Instant
}

/// A lock that one copy of a call was granted while the other copy, with the same OWNER, went on waiting for it.
struct Twin: Sendable {
    var lock: Int
    var at: Instant
    /// Milliseconds.
    var ttl: Int64
}

/// What a finding is judged with: what broke, who asked for what, and what was seen in Redis.
struct Story {
    var profile: Profile
    var faults: [ToldFault]
    var calls: [ToldCall]
    var ghosts: [Ghost]
    var twins: [Twin]

    /// The number of the lock that the finding is about; `nil`: it is about none.
    func lockNumber(_ violation: Violation) -> Int? {
        guard violation.finding.hasPrefix("lock ") else { return nil }
        return Int(violation.finding.dropFirst(5).prefix { $0.isNumber })
    }

    /// How that lock is used.
    func lock(_ violation: Violation) -> Profile.LockKind? {
        guard let number = lockNumber(violation), !profile.locks.isEmpty else { return nil }
        return profile.locks[number % profile.locks.count]
    }

    func service(_ violation: Violation) -> (place: Int, definition: ServiceDefinition)? {
        let name = violation.finding.prefix { $0 != ":" }
        return profile.services.enumerated().first { $1.name == name }.map { ($0, $1) }
    }

    /// Faults of these kinds that began before the finding, and lasted at some time since so many milliseconds before it.
    func recent(_ kinds: Set<FaultKind>, within milliseconds: Int64, before violation: Violation) -> [ToldFault] {
        let since = violation.at.advanced(byMilliseconds: -milliseconds)
        return faults.filter { kinds.contains($0.kind) && $0.began <= violation.at && ($0.ended ?? violation.at) >= since }
    }

    /// Calls that took a lock, or asked for it, and were under way within so many milliseconds before the finding.
    func acquires(ofLock number: Int, within milliseconds: Int64, before violation: Violation) -> [ToldCall] {
        let since = violation.at.advanced(byMilliseconds: -milliseconds)
        return calls.filter { call in
            guard case .acquire(number, _, _, _, _) = call.operation else { return false }
            return call.began <= violation.at && (call.ended.map { $0 >= since } ?? true)
        }
    }

    /// Whether a lease of a lock came to its end within so many milliseconds before the finding without having been released.
    func lapsed(ofLock number: Int, within milliseconds: Int64, before violation: Violation) -> Bool {
        var ends: [LeaseID: Instant] = [:]
        for call in calls {
            guard let ended = call.ended, ended <= violation.at else { continue }
            switch (call.operation, call.ending) {
            case (.acquire(number, _, let ttl, _, _), .done(.granted(let lease, _, _))):
                ends[lease] = ended.advanced(byMilliseconds: ttl)
            case (.renew(number, let lease, let ttl), .done): ends[lease] = ended.advanced(byMilliseconds: ttl)
            case (.release(number, let lease), .done): ends[lease] = nil
            default: continue
            }
        }
        return ends.values.contains { $0 <= violation.at && $0.advanced(byMilliseconds: milliseconds) >= violation.at }
    }

    /// Whether a sidecar was cut off from Redis then, or since: by a fault of its own or of Redis.
    func isCutOff(sidecar: Int?, since: Instant? = nil, at instant: Instant) -> Bool {
        faults.contains { fault in
            fault.kind.cutsOffRedis && (fault.sidecar == nil || fault.sidecar == sidecar)
                && fault.began <= instant && (fault.ended.map { $0 >= since ?? instant } ?? true)
        }
    }

    /// Whether counters of a time when the fleet was not whole may still be kept: they are forgotten when Redis answers and
    /// nothing that was granted without it counts any more.
    func remembersShares(before violation: Violation) -> Bool {
        guard let service = service(violation) else { return false }
        let size = Int64(profile.sidecars)
        let memories = service.definition.limits.map { limit in
            if case .gcra = limit.algorithm {
                max(limit.capacity, size) * limit.windowMilliseconds / limit.limit
            } else {
                max(limit.windowMilliseconds, limit.windowMilliseconds * size / limit.limit)
            }
        }
        let memory = (memories.max() ?? 0) + 1000
        let outages = faults.filter { $0.kind.cutsOffRedis && $0.began <= violation.at }
        // All start within twenty seconds; of one that comes back everybody has heard after the next beat.
        let returns = faults.filter { ($0.kind == .kill || $0.kind == .pause) && $0.began <= violation.at }
        let origins =
            [Instant(nanoseconds: Timeline.beginning).advanced(byMilliseconds: 20_000)]
            + returns.map { ($0.ended ?? violation.at).advanced(byMilliseconds: 6000) }
        return origins.contains { origin in
            var reach = origin.advanced(byMilliseconds: memory)
            for outage in outages where outage.began <= reach {
                reach = max(reach, (outage.ended ?? violation.at).advanced(byMilliseconds: memory))
            }
            return reach >= violation.at
        }
    }

    /// Whether the limits of a service are other after a reload than before it.
    func changesLimits(_ reload: ToldFault, of service: ServiceDefinition) -> Bool {
        let change = "\(service.name).max_waiting"
        let before = faults.last { $0.kind == .reload && $0.sidecar == reload.sidecar && $0.number < reload.number }
        // Each reload is of all services: what was other in the one before is as it was.
        let (new, old) = (reload.words, before?.words ?? "")
        return new != old && (new.hasPrefix(change) || old.hasPrefix(change))
    }
}

/// What is known to be wrong, and is forgiven until it is repaired: by its cause in the story, never by its seed, and never
/// by switching a checker off.
public struct KnownFinding: Sendable {
    /// As the list of faults has it.
    public let name: String
    /// What happens, for the list.
    public let summary: String
    private let promises: Set<Promise>
    private let isCause: @Sendable (Violation, Story) -> Bool

    private init(
        _ name: String, _ promises: Set<Promise>, _ summary: String, isCause: @escaping @Sendable (Violation, Story) -> Bool
    ) {
        self.name = name
        self.promises = promises
        self.summary = summary
        self.isCause = isCause
    }

    /// The known cause of a finding; `nil`: nobody knows of it.
    static func cause(of violation: Violation, in story: Story) -> KnownFinding? {
        all.first { $0.promises.contains(violation.promise) && $0.isCause(violation, story) }
    }

    public static let all: [KnownFinding] = locks + limits + [waiting] + breakers

    private static let locks: [KnownFinding] = [
        KnownFinding(
            "L1", [.exclusion, .risingFences],
            "on a quorum a lease is cleared away with what an earlier attempt of the same waiter had left on a server"
        ) { violation, story in
            guard story.profile.quorum > 0, let lock = story.lockNumber(violation) else { return false }
            // A server stood still while somebody waited who was granted the lock later, and its connection broke or came back.
            let stalls = story.faults.filter { $0.kind == .quorumServer && $0.lasts(atLeast: 400) }
            return story.acquires(ofLock: lock, within: 20_000, before: violation).contains { call in
                guard call.operation.wait > 0, case .done(.granted)? = call.ending, let granted = call.ended else { return false }
                return stalls.contains { $0.began < granted && ($0.ended ?? granted) > call.began }
            }
        },
        KnownFinding(
            "L2", [.freeLocks],
            "who has an OWNER is told that a lock is held, and is granted it all the same: nobody holds it for the whole ttl"
        ) { violation, story in
            guard let lock = story.lockNumber(violation) else { return false }
            // A wait can begin while it lasts.
            let since = violation.at.advanced(byMilliseconds: -30_000)
            return story.ghosts.contains { $0.lock == lock && $0.at <= violation.at && $0.until >= since }
        },
        KnownFinding(
            "L5", [.freeLocks],
            "on a quorum callers that ask at the same time split the votes, and all are told that a free lock is held"
        ) { violation, story in
            guard story.profile.quorum > 0, violation.finding.contains("nobody who asked meanwhile was granted it"),
                let lock = story.lockNumber(violation)
            else { return false }
            // Of two one has a majority, while all servers are there. A vote counts until it is taken back: longer than the call
            // by two ways to a server and back.
            let isOneAway = !story.recent([.quorumServer], within: 1000, before: violation).isEmpty
            let moment = 50 + 4 * story.profile.redisDelay.upperBound / 1000
            return story.acquires(ofLock: lock, within: moment, before: violation).count >= (isOneAway ? 2 : 3)
        },
        KnownFinding(
            "L9", [.renewals], "while Redis is full a lease of a shared lock or a semaphore cannot be renewed"
        ) { violation, story in
            if case .exclusive? = story.lock(violation) { return false }
            return !story.recent([.full], within: 50, before: violation).isEmpty
        },
        KnownFinding(
            "L11", [.risingFences, .fencedWrites],
            "fences fall after Redis' clock was far ahead, when their key has lapsed meanwhile"
        ) { violation, story in
            // Its key lapses a day after the grant: the clock went further than that, and came back.
            story.faults.contains { $0.kind == .clock && abs($0.ahead) >= 86_400_000 && $0.began < violation.at }
        },
        KnownFinding(
            "L3", [.freeLocks],
            "a stopped sidecar that is first in the queue blocks a shared lock or a semaphore for as long as it stands"
        ) { violation, story in
            guard let lock = story.lockNumber(violation), violation.finding.contains("waited") else { return false }
            if case .exclusive? = story.lock(violation) { return false }
            // Somebody waited there when it stopped: its ticket stands in the queue.
            return story.recent([.pause, .kill], within: 2000, before: violation).contains { fault in
                story.calls.contains { call in
                    guard case .acquire(lock, _, _, let wait, _) = call.operation else { return false }
                    return wait > 0 && call.sidecar == fault.sidecar && call.isUnderWay(at: fault.began)
                }
            }
        },
        KnownFinding(
            "N4", [.freeLocks],
            "a ticket that was not withdrawn is first in the queue of a semaphore or a shared lock: nobody gets a place"
        ) { violation, story in
            guard let lock = story.lockNumber(violation), violation.finding.contains("waited") else { return false }
            if case .exclusive? = story.lock(violation) { return false }
            // Somebody waited who was told that Redis cannot be reached, or nothing.
            return story.acquires(ofLock: lock, within: 30_000, before: violation).contains { call in
                call.operation.wait > 0 && call.ended.map { $0 < violation.at } ?? false && call.ending?.isDoubtful ?? false
            }
        },
        KnownFinding(
            "N5", [.freeLocks],
            "an OWNER's second call goes on waiting for what its first was granted, when others wait between them"
        ) { violation, story in
            guard let lock = story.lockNumber(violation), violation.finding.contains("waited") else { return false }
            return story.twins.contains { twin in
                twin.lock == lock && twin.at <= violation.at
                    && violation.at <= twin.at.advanced(byMilliseconds: twin.ttl + 1000)
            }
        },
        KnownFinding(
            "N1", [.freeLocks],
            "when a place of a semaphore or a shared lease lapses, and is not released, those who wait learn of it up to five seconds later"
        ) { violation, story in
            guard let lock = story.lockNumber(violation), violation.finding.contains("waited") else { return false }
            if case .exclusive? = story.lock(violation) { return false }
            return story.lapsed(ofLock: lock, within: 6000, before: violation)
        },
    ]

    private static let limits: [KnownFinding] = [
        KnownFinding(
            "R1", [.refusals], "a remembered refusal outlives its counter"
        ) { violation, story in
            guard let refused = story.calls.last(where: { $0.ended == violation.at }), let service = refused.operation.service
            else {
                return false
            }
            // This sidecar was told of it before the counter went, and it is not over by itself.
            return story.calls.contains { call in
                guard call.operation.service == service, call.sidecar == refused.sidecar, let told = call.ended,
                    case .refused(.limited(let rest))? = call.ending
                else { return false }
                return told < refused.began && told.advanced(byMilliseconds: rest) >= refused.began
            }
        },
        KnownFinding(
            "R2", [.limitsRefill], "limits refuse everybody for as long as Redis' clock was set back"
        ) { violation, story in
            story.faults.contains { fault in
                guard fault.kind == .clock, fault.began < violation.at else { return false }
                // Set back when it began, or when it came to its end.
                let moment = fault.ahead < 0 ? fault.began : fault.ended ?? .distantFuture
                return moment < violation.at && violation.at <= moment.advanced(byMilliseconds: abs(fault.ahead) + 120_000)
            }
        },
        KnownFinding(
            "R10", [.limits], "a reload while Redis is away, or soon after, grants the local share again"
        ) { violation, story in
            guard violation.finding.contains(localShares), let service = story.service(violation),
                let longest = service.definition.limits.map(\.windowMilliseconds).max()
            else { return false }
            return story.recent([.reload], within: 120_000, before: violation).contains { reload in
                // What was granted without Redis counts for a window.
                let since = reload.began.advanced(byMilliseconds: -longest)
                return story.changesLimits(reload, of: service.definition)
                    && story.isCutOff(sidecar: reload.sidecar, since: since, at: reload.began)
            }
        },
        KnownFinding(
            "R12", [.limits], "a list of the fleet that is being filled again makes shares too large"
        ) { violation, story in
            violation.finding.contains(localShares)
                && !story.recent([.foreignFleet, .redisWipe, .failover], within: 60_000, before: violation).isEmpty
        },
        KnownFinding(
            "R4", [.limits], "the local share keeps the fleet's size of the moment when it was made"
        ) { violation, story in
            // The fleet was not whole when the share was made.
            violation.finding.contains(localShares) && story.profile.fleetSize < story.profile.sidecars
                && story.remembersShares(before: violation)
        },
    ]

    private static let waiting = KnownFinding(
        "N3", [.answers],
        "a call without a wait stands behind one that came after it and waits, and is answered with that one only"
    ) { violation, story in
        guard let late = story.calls.last(where: { $0.ended == violation.at && $0.operation.wait == 0 }),
            let service = late.operation.service
        else { return false }
        return story.calls.contains { call in
            call.operation.service == service && call.sidecar == late.sidecar && call.operation.wait > 0
                && call.began >= late.began
                && call.began < violation.at && call.lasts(atLeast: 1000)
        }
    }

    /// What the checker says of grants by shares.
    private static let localShares = "the shares of sidecars without Redis included"

    private static let breakers: [KnownFinding] = [
        KnownFinding(
            "N6", [.halfOpen], "a trial permit is kept when its call finds all places taken"
        ) { violation, story in
            guard let service = story.service(violation), service.definition.concurrency != nil else { return false }
            // For as long as a permit lasts.
            let since = violation.at.advanced(byMilliseconds: -service.definition.permitLifetime.wholeMilliseconds - 3000)
            return story.calls.contains { call in
                guard case .permit(let place, _, 0) = call.operation, case .refused(.busy)? = call.ending, let ended = call.ended
                else { return false }
                return place % story.profile.services.count == service.place && ended >= since && ended <= violation.at
            }
        },
        KnownFinding(
            "R6", [.halfOpen], "a trial permit is kept while its call waits at a limit"
        ) { violation, story in
            guard let service = story.service(violation), !service.definition.limits.isEmpty else { return false }
            let since = violation.at.advanced(byMilliseconds: -World.recovery)
            return story.calls.contains { call in
                guard case .permit(let place, _, let wait) = call.operation, wait > 0, call.began <= violation.at else {
                    return false
                }
                return place % story.profile.services.count == service.place && call.lasts(atLeast: 100)
                    && (call.ended ?? violation.at) >= since
            }
        },
        KnownFinding(
            "R7", [.forcedStates], "after Redis lost its data an outage report erases a forced state"
        ) { violation, story in
            story.service(violation)?.definition.probe != nil
                && !story.recent([.redisWipe, .failover], within: 10_000, before: violation).isEmpty
        },
        KnownFinding(
            "N7", [.openBreakers],
            "a later end of an outage, told under the same generation after Redis lost its data, is not heard"
        ) { violation, story in
            guard story.service(violation)?.definition.probe != nil,
                let call = story.calls.last(where: { $0.ended == violation.at })
            else { return false }
            // Without Redis it is not asked for either.
            return !story.recent([.redisWipe, .failover], within: 10_000, before: violation).isEmpty
                && story.isCutOff(sidecar: call.sidecar, since: violation.at.advanced(byMilliseconds: -1000), at: violation.at)
        },
        KnownFinding(
            "N2", [.forcedStates, .openBreakers],
            "what is forced or decided after Redis lost its data has an earlier generation than a sidecar remembers, or the same"
        ) { violation, story in
            guard violation.promise == .forcedStates || violation.finding.contains("under the same generation") else {
                return false
            }
            // Generations are times of Redis' clock: it had been ahead, and what it had said was remembered.
            return story.recent([.redisWipe, .failover], within: 10_000, before: violation).contains { loss in
                story.faults.contains { $0.kind == .clock && $0.ahead > 0 && $0.began < loss.began }
            }
        },
    ]
}
