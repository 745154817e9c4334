import InterlockJudge
import Testing

@testable import InterlockLoad

@Suite("Free locks")
struct FreeLockTests {
    /// Waits for up to five seconds from 100 ms on; recovery takes up to three.
    private func refused(at ended: Double, after history: MadeHistory = MadeHistory()) -> MadeHistory {
        var history = history
        history.operation(
            .acquire(lock: 1, mode: .exclusive, ttl: 1000, wait: 5000), client: 9, asked: 100, ended: ended, .refused(.held))
        return history
    }

    @Test("who waits in vain for a lock that nobody has is found", arguments: [(3100.0, true), (3101.0, false)])
    func free(ended: Double, isGood: Bool) {
        #expect(refused(at: ended).broken == (isGood ? [] : [.freeLocks]))
    }

    @Test("a lease that is extended keeps a lock from being free")
    func held() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 10, asked: 0, answered: 2)
        for time in stride(from: 500.0, to: 5000, by: 500) { history.renew(1, of: 1, asked: time, answered: time + 1) }
        #expect(refused(at: 5100, after: history).broken.isEmpty)
    }

    @Test("a lock is free again when it is released", arguments: [(4100.0, true), (4200.0, false)])
    func released(ended: Double, isGood: Bool) {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 10, asked: 0, answered: 2, valid: 4000)
        history.release(1, of: 1, asked: 1149, answered: 1150)
        #expect(refused(at: ended, after: history).broken == (isGood ? [] : [.freeLocks]))
    }

    @Test("an acquire without an answer may hold the lock for as long as it asked for")
    func doubtful() {
        var history = MadeHistory()
        history.operation(
            .acquire(lock: 1, mode: .exclusive, ttl: 4000, wait: 0), client: 1, asked: 50, ended: 99, .unknown(reason: "closed"))
        #expect(refused(at: 5100, after: history).broken.isEmpty)
    }

    @Test("a fault is an excuse")
    func fault() {
        var history = MadeHistory()
        history.fault(.partition, sidecar: 1, from: 1000, to: 3000)
        #expect(refused(at: 5100, after: history).broken.isEmpty)
    }
}
