import InterlockCore
import Testing

@testable import InterlockJudge

@Suite("The memory of checkers")
struct BoundedCheckTests {
    /// Observes cycles of locks, limits and breakers. Few clients and names take part, but each cycle has its own
    /// lease, permit and subject: about eleven events.
    private func run(_ check: inout HistoryCheck, cycles: Range<Int64>) {
        var time = cycles.lowerBound * 2_000_000
        func next(_ kind: HistoryEvent.Kind, _ check: inout HistoryCheck) {
            time += 100_000
            check.observe(HistoryEvent(at: Instant(nanoseconds: time), kind))
        }
        for cycle in cycles {
            let client = Int(cycle % 10)
            let lock = Int(cycle % 3)
            let mode: LeaseMode = lock == 0 ? .exclusive : lock == 1 ? .shared : .permits(3)
            next(
                .invoked(
                    client: client, sidecar: 0,
                    .acquire(lock: lock, mode: mode, ttlMilliseconds: 2, waitMilliseconds: 0)),
                &check)
            next(.ended(client: client, .done(.granted(lease: cycle, fence: cycle, validForMilliseconds: 2))), &check)
            next(.wrote(client: client, lock: lock, lease: cycle, fence: cycle, isAccepted: true), &check)
            next(.invoked(client: client, sidecar: 0, .renew(lock: lock, lease: cycle, ttlMilliseconds: 2)), &check)
            next(.ended(client: client, .done(.renewed(validForMilliseconds: 2))), &check)
            if cycle % 2 == 0 {
                next(.invoked(client: client, sidecar: 0, .release(lock: lock, lease: cycle)), &check)
                next(.ended(client: client, .unknown(reason: "timed-out")), &check)
            }
            next(
                .invoked(
                    client: client, sidecar: 0, .take(service: 0, cost: 1, subject: Int(cycle), waitMilliseconds: 0)),
                &check
            )
            next(.ended(client: client, .done(.taken(limit: 2000, remaining: 1, resetAfterMilliseconds: 10))), &check)
            next(.invoked(client: client, sidecar: 0, .permit(service: 1, waitMilliseconds: 0)), &check)
            next(.ended(client: client, .done(.permitted(cycle, state: .halfOpen))), &check)
            next(.breakerSeen(sidecar: 0, service: 1, state: .halfOpen, generation: cycle + 1, until: nil), &check)
        }
    }

    @Test("Memory does not grow with the number of operations, even over a million events")
    func memoryDoesNotGrowWithOperations() {
        let limits = [
            LimitRule(algorithm: .sliding, limit: 2000, windowMilliseconds: 1000),
            LimitRule(algorithm: .fixed, limit: 2, windowMilliseconds: 100, isPerSubject: true),
        ]
        var check = HistoryCheck(
            rules: HistoryRules(
                services: [
                    ServiceRules(name: "catalog", limits: limits, whenRedisIsDown: .local),
                    ServiceRules(name: "search", limits: [], halfOpenPermits: 3, permitLifetimeMilliseconds: 5),
                ], sidecars: 1, patienceMilliseconds: 1000, recoveryMilliseconds: 1000))
        run(&check, cycles: 1..<90_000)
        #expect(check.report.violationCount == 0, "\(check.report.violations.first?.description ?? "")")
        #expect(check.report.lockGrants == 89_999)
        // The check keeps the grants of ten seconds, twice, and the subjects with a grant in the last two windows.
        // These are about 22,000 elements.
        #expect(Footprint(of: check).elements < 30_000)
    }
}

/// The total number of elements of all collections in a value.
private struct Footprint {
    private(set) var elements = 0

    init(of value: Any) {
        count(Mirror(reflecting: value))
    }

    private mutating func count(_ mirror: Mirror) {
        switch mirror.displayStyle {
        case .collection?, .dictionary?, .set?: elements += mirror.children.count
        default: break
        }
        for child in mirror.children { count(Mirror(reflecting: child.value)) }
    }
}
