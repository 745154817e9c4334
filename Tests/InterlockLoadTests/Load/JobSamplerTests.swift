import InterlockCore
import RedisClient
import Testing

@testable import InterlockJudge
@testable import InterlockLoad

@Suite("The choice of the next operation")
struct JobSamplerTests {
    private func jobs(_ count: Int, seed: UInt64 = 5, change: (inout LoadPlan) -> Void = { _ in }) -> [LoadJob] {
        var plan = LoadPlan(workload: .mixed, sidecars: [], services: StandardServices(upstream: "http://127.0.0.1:1").load)
        plan.modes = .mixed
        change(&plan)
        var choice = JobSampler(plan: plan, random: SeededRandom(seed: seed))
        return (0..<count).map { _ in choice.next() }
    }

    @Test("A mixed run has the configured fraction of each kind")
    func mixedRunHasConfiguredFractionOfEachKind() {
        let jobs = jobs(20_000)
        func fraction(_ kind: OperationKind) -> Double { Double(jobs.count { $0.kind == kind }) / Double(jobs.count) }
        #expect(abs(fraction(.acquire) - 0.40) < 0.02)
        #expect(abs(fraction(.take) - 0.40) < 0.02)
        #expect(abs(fraction(.permit) - 0.15) < 0.02)
        #expect(abs(fraction(.proxied) - 0.05) < 0.02)
    }

    @Test("A run of one kind has no other kind", arguments: [Workload.lock, .limit, .permit, .proxy])
    func runOfOneKindHasNoOtherKind(workload: Workload) {
        let jobs = jobs(500) { $0.workload = workload }
        #expect(Set(jobs.map(\.kind)).count == 1)
    }

    @Test("Each lock is always exclusive, always mixed with readers, or always a semaphore")
    func eachLockKeepsItsMode() {
        var modes: [Int: Set<LeaseMode>] = [:]
        for case .lockCycle(let lock, let mode) in jobs(50_000, change: { $0.names = 20 }) {
            modes[lock, default: []].insert(mode)
        }
        for (lock, seen) in modes {
            switch lock % 10 {
            case 9: #expect(seen == [.permits(3)])
            case 7, 8: #expect(seen == [.exclusive, .shared])
            default: #expect(seen == [.exclusive])
            }
        }
        #expect(modes.count == 20)
    }

    @Test("A call names a subject if and only if its service has a limit per subject")
    func callNamesSubjectOnlyForSubjectLimit() {
        for case .take(let service, _, let subject, _) in jobs(2000, change: { $0.workload = .limit }) {
            #expect((subject != nil) == (service == 3))
        }
    }

    @Test("A seed determines the operations")
    func seedDeterminesOperations() {
        #expect(jobs(200, seed: 1) == jobs(200, seed: 1))
        #expect(jobs(200, seed: 1) != jobs(200, seed: 2))
    }
}
