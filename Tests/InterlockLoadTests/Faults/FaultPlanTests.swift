@testable import InterlockJudge
import InterlockCore
import Testing

@testable import InterlockLoad

@Suite("A plan of faults")
struct FaultPlanTests {
    private static let duration = Duration.seconds(1800)
    private static let lease = Duration.seconds(2)
    private static let recovery = Duration.seconds(15)

    private static func plan(
        seed: UInt64 = 1, kinds: Set<FaultKind> = Set(FaultKind.injectable), sidecars: Int = 4, duration: Duration = duration
    ) -> FaultPlan {
        FaultPlan(seed: seed, kinds: kinds, sidecars: sidecars, duration: duration, lease: lease, recovery: recovery)
    }

    @Test("The same seed produces the same plan")
    func sameSeedProducesSamePlan() {
        #expect(Self.plan(seed: 42) == Self.plan(seed: 42))
    }

    @Test("Another seed produces another plan")
    func anotherSeedProducesAnotherPlan() {
        #expect(Self.plan(seed: 1).faults != Self.plan(seed: 2).faults)
    }

    @Test("Exactly the chosen kinds occur", arguments: FaultKind.injectable)
    func exactlyChosenKindsOccur(excluding excluded: FaultKind) {
        let chosen = Set(FaultKind.injectable).subtracting([excluded])
        #expect(Set(Self.plan(kinds: chosen).faults.map(\.kind)) == chosen)
    }

    @Test("A target never has two faults at the same time", arguments: 0..<20)
    func targetNeverHasTwoFaultsAtOnce(seed: UInt64) {
        for (_, faults) in Dictionary(grouping: Self.plan(seed: seed).faults, by: \.action.target) {
            for (first, second) in zip(faults, faults.dropFirst()) { #expect(first.end < second.start) }
        }
    }

    @Test("Faults with different targets sometimes overlap")
    func faultsWithDifferentTargetsSometimesOverlap() {
        let faults = Self.plan().faults
        let overlapping = zip(faults, faults.dropFirst()).filter { $0.end > $1.start }
        #expect(!overlapping.isEmpty)
    }

    @Test("Faults are numbered in the order in which they begin")
    func order() {
        let faults = Self.plan().faults
        #expect(faults.map(\.number) == Array(faults.indices))
        #expect(zip(faults, faults.dropFirst()).allSatisfy { $0.start <= $1.start })
    }

    @Test("The end of a run has no faults", arguments: 0..<20)
    func endOfRunHasNoFaults(seed: UInt64) {
        #expect(Self.plan(seed: seed, duration: .seconds(60)).faults.allSatisfy { $0.end <= .seconds(60) - Self.recovery })
    }

    @Test("A run of half an hour has a fault every few seconds")
    func runOfHalfHourHasFaultEveryFewSeconds() {
        #expect((150...400).contains(Self.plan().faults.count))
    }

    @Test("A run shorter than its calm period has no faults")
    func shortRun() {
        #expect(Self.plan(duration: .seconds(5)).faults.isEmpty)
    }

    @Test("A sidecar is paused for longer than a lease")
    func sidecarIsPausedForLongerThanLease() {
        let pauses = Self.plan(kinds: [.pause]).faults
        #expect(!pauses.isEmpty)
        #expect(pauses.allSatisfy { $0.duration > Self.lease })
    }

    @Test("Without sidecars only Redis and clients have faults")
    func noSidecars() {
        let kinds = Set(Self.plan(sidecars: 0).faults.map(\.kind))
        #expect(kinds == [.redisRestart, .redisPause, .redisWipe, .clock, .failover, .vanish, .reshard, .nodeJoin, .nodeLeave])
    }

    @Test("A plan describes each fault on one line")
    func planDescribesEachFaultOnOneLine() {
        let plan = FaultPlan(
            seed: 7,
            faults: [
                PlannedFault(number: 0, action: .kill(sidecar: 2), start: .milliseconds(1500), duration: .milliseconds(300)),
                PlannedFault(number: 1, action: .clock(bySeconds: -60), start: .seconds(9), duration: .seconds(1)),
            ],
            calmStart: .seconds(20))
        #expect(
            plan.description == """
                faults of seed 7
                  #0 at 1500 ms for 300 ms: kill of sidecar 2
                  #1 at 9000 ms for 1000 ms: clock of Redis, -60 s
                  calm from 20000 ms
                """)
    }
}
