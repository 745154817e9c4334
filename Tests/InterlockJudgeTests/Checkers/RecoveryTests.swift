import Testing

@testable import InterlockJudge

@Suite("Recovery")
struct RecoveryTests {
    /// Redis is paused until 1000; the recovery time is three seconds. Each sidecar fails until its own time.
    private func history(serving: [Double]) -> SyntheticHistory {
        var history = SyntheticHistory()
        history.fault(.redisPause, from: 0, to: 1000)
        for (sidecar, time) in serving.enumerated() {
            for at in stride(from: 1100.0, to: 6000, by: 100) {
                history.operation(
                    .renew(lock: 1, lease: 1, ttlMilliseconds: 100), client: sidecar, sidecar: sidecar, requested: at,
                    ended: at + 5,
                    at >= time ? .refused(.lost) : .failed(code: "UNAVAILABLE"))
            }
        }
        return history
    }

    @Test("Sidecars that serve again in time have recovered, and the time is reported")
    func sidecarsServingInTimeHaveRecovered() {
        let check = history(serving: [1500, 3900]).check()
        #expect(check.report.violationCount == 0)
        #expect(check.recoveryMilliseconds == [1: 2905])
    }

    @Test("A sidecar that does not serve after the recovery time is reported once")
    func notRecovered() {
        let check = history(serving: [1500, .infinity]).check()
        #expect(check.report.violations.map(\.invariant) == [.recovery])
        #expect(check.recoveryMilliseconds.isEmpty)
    }

    @Test("A sidecar that refuses connections is reported too")
    func refusedConnection() {
        var history = history(serving: [1500])
        history.operation(
            .renew(lock: 1, lease: 1, ttlMilliseconds: 100), sidecar: 1, requested: 4100, ended: 4101,
            .failed(code: "not-connected"))
        #expect(history.violatedInvariants == [.recovery])
    }

    @Test("Another fault during the recovery starts a new one")
    func anotherFault() {
        var history = history(serving: [1500, .infinity])
        history.fault(.latency, sidecar: 1, from: 3500, to: nil)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test(
        "Answers that do not depend on Redis prove nothing",
        arguments: [
            OperationEnding.refused(.open(retryAfterMilliseconds: 5)), .failed(code: "INVALID"),
            .unknown(reason: OperationEnding.vanished),
        ])
    func provesNothing(ending: OperationEnding) {
        var history = SyntheticHistory()
        history.fault(.redisPause, from: 0, to: 1000)
        history.operation(.renew(lock: 1, lease: 1, ttlMilliseconds: 100), requested: 5000, ended: 5001, ending)
        let check = history.check()
        #expect(check.report.violationCount == 0)
        #expect(check.recoveryMilliseconds.isEmpty)
    }

    @Test("A sidecar without calls is not checked")
    func withoutCalls() {
        #expect(history(serving: [1500]).check().recoveryMilliseconds == [1: 505])
    }
}
