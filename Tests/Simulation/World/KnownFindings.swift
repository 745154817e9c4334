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

    /// What a finding is judged with.
    struct Story {
        var profile: Profile
        var faults: [ToldFault]

        /// How the lock is used that the finding is about; `nil`: it is about none.
        func lock(_ violation: Violation) -> Profile.LockKind? {
            guard violation.finding.hasPrefix("lock "),
                let number = Int(violation.finding.dropFirst(5).prefix { $0.isNumber }), !profile.locks.isEmpty
            else { return nil }
            return profile.locks[number % profile.locks.count]
        }

        func service(_ violation: Violation) -> ServiceDefinition? {
            let name = violation.finding.prefix { $0 != ":" }
            return profile.services.first { $0.name == name }
        }

        /// Faults of these kinds that began before the finding, and lasted at some time since so many milliseconds before it.
        func recent(_ kinds: Set<FaultKind>, within milliseconds: Int64, before violation: Violation) -> [ToldFault] {
            let since = violation.at.advanced(byMilliseconds: -milliseconds)
            return faults.filter { kinds.contains($0.kind) && $0.began <= violation.at && ($0.ended ?? violation.at) >= since }
        }
    }

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

    public static let all: [KnownFinding] = [
        KnownFinding(
            "L5", [.freeLocks],
            "on a quorum callers that ask at the same time split the votes, and all are told that a free lock is held"
        ) { violation, story in
            story.profile.quorum > 0 && violation.finding.contains("nobody who asked meanwhile was granted it")
        },
        KnownFinding(
            "L9", [.renewals], "while Redis is full a lease of a shared lock or a semaphore cannot be renewed"
        ) { violation, story in
            if case .exclusive? = story.lock(violation) { return false }
            return !story.recent([.full], within: 0, before: violation).isEmpty
        },
        KnownFinding(
            "L11", [.risingFences, .fencedWrites],
            "fences fall after Redis' clock was far ahead, when their key has lapsed meanwhile"
        ) { violation, story in
            // Its key lapses a day after the grant: the clock went further than that, and came back.
            story.faults.contains { $0.kind == .clock && abs($0.ahead) >= 86_400_000 && $0.began < violation.at }
        },
        KnownFinding(
            "R1", [.refusals, .limitsRefill], "a remembered refusal outlives its counter"
        ) { violation, story in
            // The counter is gone before its time: deleted, forgotten, or given back through another sidecar.
            let kinds: Set<FaultKind> = [.foreignCounter, .redisWipe, .failover, .clock]
            return violation.promise == .refusals && !story.recent(kinds, within: 120_000, before: violation).isEmpty
        },
        KnownFinding(
            "R2", [.limitsRefill], "limits refuse everybody for as long as Redis' clock was set back"
        ) { violation, story in
            story.faults.contains { fault in
                // Set back when it began, or when it came to its end.
                fault.kind == .clock && fault.began < violation.at
                    && (fault.ahead < 0 || fault.ended.map { $0 < violation.at } ?? false)
            }
        },
        KnownFinding(
            "L3", [.freeLocks],
            "a stopped sidecar that is first in the queue blocks a shared lock or a semaphore for as long as it stands"
        ) { violation, story in
            if case .exclusive? = story.lock(violation) { return false }
            return violation.finding.contains("waited") && !story.recent([.pause, .kill], within: 0, before: violation).isEmpty
        },
        KnownFinding(
            "N1", [.freeLocks],
            "places of a semaphore or a shared lock stay free for up to five seconds though somebody waits, when nothing is broken"
        ) { violation, story in
            if case .exclusive? = story.lock(violation) { return false }
            let any = Set(FaultKind.allCases)
            return violation.finding.contains("waited") && story.recent(any, within: 10_000, before: violation).isEmpty
        },
        KnownFinding(
            "R6", [.halfOpen], "a trial permit is kept while its call waits at a limit"
        ) { violation, story in
            story.service(violation).map { !$0.limits.isEmpty } ?? false
        },
        KnownFinding(
            "R7", [.forcedStates], "after Redis lost its data an outage report erases a forced state"
        ) { violation, story in
            story.service(violation)?.probe != nil
                && !story.recent([.redisWipe, .failover], within: 10_000, before: violation).isEmpty
        },
        KnownFinding(
            "R10", [.limits], "a reload while Redis is away grants the local share again"
        ) { violation, story in
            violation.finding.contains("the shares of sidecars without Redis included")
                && !story.recent([.reload], within: 60_000, before: violation).isEmpty
        },
        KnownFinding(
            "R12", [.limits], "a list of the fleet that is being filled again makes shares too large"
        ) { violation, story in
            violation.finding.contains("the shares of sidecars without Redis included")
                && !story.recent([.foreignFleet, .redisWipe, .failover], within: 60_000, before: violation).isEmpty
        },
        KnownFinding(
            "R4", [.limits], "the local share keeps the fleet's size of the moment when it was made"
        ) { violation, story in
            violation.finding.contains("the shares of sidecars without Redis included") && story.profile.sidecars > 1
                && story.profile.fleetSize < story.profile.sidecars
        },
    ]
}
