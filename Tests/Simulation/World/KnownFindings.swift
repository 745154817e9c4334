package import InterlockCore
package import InterlockJudge

/// A fault of a story.
package struct StoryFault: Sendable {
    package var number: Int
    package var kind: FaultKind
    /// The affected sidecar; `nil` if all are affected.
    package var sidecar: Int?
    package var began: Instant
    /// The end of the fault; `nil` if it lasted until the world's end.
    package var ended: Instant?
    /// The lead of the Redis clock after the fault's last step, in milliseconds.
    package var clockLeadMilliseconds: Int64 = 0
    package var description: String

    func lasts(atLeastMilliseconds milliseconds: Int64) -> Bool {
        ended.map { $0 >= began.advanced(byMilliseconds: milliseconds) } ?? true
    }
}

/// A call of a story.
package struct StoryCall: Sendable {
    package var client: Int
    package var sidecar: Int
    package var operation: Operation
    package var began: Instant
    /// The end of the call; `nil` if it was pending at the world's end.
    package var ended: Instant?
    package var ending: OperationEnding?

    /// Returns all calls in the order in which they began.
    static func all(of events: [HistoryEvent]) -> [StoryCall] {
        var calls: [StoryCall] = []
        var openCallIndices: [Int: Int] = [:]
        for event in events {
            switch event.kind {
            case .invoked(let client, let sidecar, let operation):
                openCallIndices[client] = calls.count
                calls.append(StoryCall(client: client, sidecar: sidecar, operation: operation, began: event.at))
            case .ended(let client, let ending):
                guard let index = openCallIndices.removeValue(forKey: client) else { continue }
                calls[index].ended = event.at
                calls[index].ending = ending
            default: continue
            }
        }
        return calls
    }

    func lasts(atLeastMilliseconds milliseconds: Int64) -> Bool {
        ended.map { $0 >= began.advanced(byMilliseconds: milliseconds) } ?? true
    }

    /// Whether the call is for the lock or service that a finding names.
    func isAbout(_ violation: Violation, services: [String]) -> Bool {
        if let service = operation.service { return violation.finding.hasPrefix(services[service] + ":") }
        switch operation {
        case .acquire(let lock, _, _, _, _), .renew(let lock, _, _), .release(let lock, _):
            return violation.finding.hasPrefix("lock \(lock):")
        default: return false
        }
    }

    func isInFlight(at instant: Instant) -> Bool { began <= instant && (ended.map { $0 >= instant } ?? true) }
}

/// The context of a finding: the world's profile and its faults.
struct Story {
    var profile: Profile
    var faults: [StoryFault]

    func service(_ violation: Violation) -> (index: Int, definition: ServiceDefinition)? {
        let name = violation.finding.prefix { $0 != ":" }
        return (profile.services + profile.apis.proxied).enumerated().first { $1.name == name }.map { ($0, $1) }
    }

    /// The limits of the service or of the domain's rule that a finding names.
    private func limits(_ violation: Violation) -> [LimitDefinition] {
        let name = violation.finding.prefix { $0 != ":" }
        return service(violation)?.definition.limits ?? profile.domainRules.filter { $0.name == name }.map(\.limit)
    }

    /// Returns whether sidecars may still have counts from a time when the fleet was incomplete. They drop these counts
    /// once Redis answers and all grants without it have lapsed.
    func remembersQuotas(before violation: Violation) -> Bool {
        let size = Int64(profile.maximumFleetSize)
        let retentionMilliseconds = limits(violation).map { limit in
            switch limit.algorithm {
            case .gcra: max(limit.capacity, size) * limit.windowMilliseconds / limit.limit
            case .fixed, .sliding: max(limit.windowMilliseconds, limit.windowMilliseconds * size / limit.limit)
            }
        }
        guard let longestMilliseconds = retentionMilliseconds.max() else { return false }
        let retainedMilliseconds = longestMilliseconds + 1000
        let outages = faults.filter { $0.kind.cutsOffRedis && $0.began <= violation.at }
        // All sidecars start within twenty seconds. The others learn of a returning sidecar from its next heartbeat.
        let returns = faults.filter { $0.kind.mayCause(.silence) && $0.began <= violation.at }
        let origins =
            [Instant(nanoseconds: WorldTimeline.beginning).advanced(byMilliseconds: 20_000)]
            + returns.map { ($0.ended ?? violation.at).advanced(byMilliseconds: 6000) }
        return origins.contains { origin in
            var retainedUntil = origin.advanced(byMilliseconds: retainedMilliseconds)
            for outage in outages where outage.began <= retainedUntil {
                retainedUntil = max(
                    retainedUntil, (outage.ended ?? violation.at).advanced(byMilliseconds: retainedMilliseconds))
            }
            return retainedUntil >= violation.at
        }
    }
}

/// A documented consequence of a world's configuration, which is not a violation. Reports list it separately.
package struct KnownFinding: Sendable {
    /// The name for `--finding`.
    package let name: String
    /// A description of the consequence, for the list of findings.
    package let summary: String
    private let invariants: Set<Invariant>
    private let isCause: @Sendable (Violation, Story) -> Bool

    private init(
        _ name: String, _ invariants: Set<Invariant>, _ summary: String, isCause: @escaping @Sendable (Violation, Story) -> Bool
    ) {
        self.name = name
        self.invariants = invariants
        self.summary = summary
        self.isCause = isCause
    }

    /// Returns the known cause of a finding; `nil` if it has none.
    static func cause(of violation: Violation, in story: Story) -> KnownFinding? {
        all.first { $0.invariants.contains(violation.invariant) && $0.isCause(violation, story) }
    }

    package static let all: [KnownFinding] = [
        KnownFinding(
            "fleet_size", [.limits],
            "a sidecar that has not seen the fleet since its start computes its quota as if it were alone: fleet_size, docs/reference/limits.md"
        ) { violation, story in
            violation.finding.contains("including the local quotas of sidecars without Redis")
                && story.profile.fleetSize < story.profile.maximumFleetSize && story.remembersQuotas(before: violation)
        }, failover, failoverOfMany,
    ]

    /// Leases lost in a failover, which checkers count separately; see `LostLease`.
    static let failover = KnownFinding(
        "failover", [], "a failover lost a lease that no replica had acknowledged: docs/start/guarantees.md"
    ) { _, _ in false }
    /// Leases lost in a failover although some of the replicas, but not all, had acknowledged them.
    static let failoverOfMany = KnownFinding(
        "failover-of-many", [],
        "a failover to a replica without the lease lost it: locks.wait_replicas, docs/start/guarantees.md"
    ) { _, _ in false }
}
