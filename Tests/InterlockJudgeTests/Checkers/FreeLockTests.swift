import InterlockJudge
import Testing

@Suite("Free locks")
struct FreeLockTests {
    /// From 100 ms on, a client waits without success for up to five seconds; recovery takes up to three seconds.
    private func refused(at ended: Double, after history: SyntheticHistory = SyntheticHistory()) -> SyntheticHistory {
        var history = history
        history.operation(
            .acquire(lock: 1, mode: .exclusive, ttlMilliseconds: 1000, waitMilliseconds: 5000), client: 9,
            requested: 100,
            ended: ended, .refused(.held))
        return history
    }

    @Test("A wait that fails although the lock is free is a violation", arguments: [(3100.0, true), (3101.0, false)])
    func free(ended: Double, isGood: Bool) {
        #expect(refused(at: ended).violatedInvariants == (isGood ? [] : [.freeLocks]))
    }

    @Test("A renewed lease keeps a lock from being free")
    func renewedLeaseKeepsLockFromBeingFree() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2)
        for time in stride(from: 500.0, to: 5000, by: 500) { history.renew(1, of: 1, requested: time, answered: time + 1) }
        #expect(refused(at: 5100, after: history).violatedInvariants.isEmpty)
    }

    @Test("A lock is free again when it is released", arguments: [(4100.0, true), (4200.0, false)])
    func releasedLockIsFree(ended: Double, isGood: Bool) {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2, valid: 4000)
        history.release(1, of: 1, requested: 1149, answered: 1150)
        #expect(refused(at: ended, after: history).violatedInvariants == (isGood ? [] : [.freeLocks]))
    }

    @Test(
        "A release takes effect even if its client disconnects right after it, unless a fault occurs", arguments: [false, true])
    func closedAfterwards(isBroken: Bool) {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2, valid: 5000)
        history.operation(
            .release(lock: 1, lease: 1), client: 1, requested: 140, ended: 140, .unknown(reason: OperationEnding.abandoned))
        if isBroken { history.fault(.externalRegistryDeletion, from: 150, to: 151) }
        #expect(refused(at: 4600, after: history).violatedInvariants == (isBroken ? [] : [.freeLocks]))
    }

    @Test("An acquire without an answer may hold the lock for its TTL")
    func acquireWithoutAnswerMayHoldLockForTTL() {
        var history = SyntheticHistory()
        history.operation(
            .acquire(lock: 1, mode: .exclusive, ttlMilliseconds: 4000, waitMilliseconds: 0), client: 1, requested: 50,
            ended: 99,
            .unknown(reason: "closed"))
        #expect(refused(at: 5100, after: history).violatedInvariants.isEmpty)
    }

    /// A client holds the lock, and another one leaves while it waits.
    private static var abandoned: SyntheticHistory {
        var history = SyntheticHistory()
        history.grant(1, to: 5, fence: 10, requested: -3900, answered: -3899, valid: 5300)
        history.operation(
            .acquire(lock: 1, mode: .exclusive, ttlMilliseconds: 9000, waitMilliseconds: 500), client: 1, requested: 50,
            ended: 99,
            .unknown(reason: OperationEnding.abandoned))
        return history
    }

    @Test("A lock granted to a client that left is released, unless a fault occurs", arguments: [false, true])
    func lockOfDepartedClientIsReleased(isBroken: Bool) {
        var history = Self.abandoned
        if isBroken { history.fault(.externalRegistryDeletion, from: 150, to: 151) }
        #expect(refused(at: 4600, after: history).violatedInvariants == (isBroken ? [] : [.freeLocks]))
    }

    @Test(
        "A client that left at the moment of a release may have been granted the lock",
        arguments: [(60.0, true), (150, true), (250, false)])
    func abandonedAtARelease(released: Double, isGood: Bool) {
        var history = Self.abandoned
        history.release(1, of: 5, requested: released, answered: released + 1)
        #expect(refused(at: 4600, after: history).violatedInvariants == (isGood ? [] : [.freeLocks]))
    }

    @Test("A free lock is granted unless a killed sidecar had requested it before", arguments: [true, false])
    func requestedByKilledSidecar(isKilled: Bool) {
        var history = SyntheticHistory()
        if isKilled { history.fault(.kill, sidecar: 3, from: 50, to: 300) }
        history.operation(
            .acquire(lock: 1, mode: .exclusive, ttlMilliseconds: 2000, waitMilliseconds: 0), client: 3, sidecar: 3,
            requested: 40,
            ended: 60,
            .failed(code: "UNAVAILABLE"))
        history.operation(
            .acquire(lock: 1, mode: .exclusive, ttlMilliseconds: 2000, waitMilliseconds: 0), client: 1, requested: 500,
            ended: 510, .refused(.held))
        #expect(history.violatedInvariants == (isKilled ? [] : [.freeLocks]))
    }

    @Test("Clients that die do not excuse a lock that nobody holds")
    func deadPrograms() {
        var history = Self.abandoned
        history.fault(.vanish, sidecar: 0, from: 150, to: 160)
        #expect(refused(at: 4600, after: history).violatedInvariants == [.freeLocks])
    }

    @Test("Each semaphore lease that ends frees one slot", arguments: [(3040.0, true), (3060.0, false)])
    func eachSemaphoreLeaseThatEndsFreesOneSlot(granted: Double, isGood: Bool) {
        var history = SyntheticHistory()
        for (client, released) in [(1, 40.0), (2, 45.0)] {
            let lease = LeaseID(client)
            history.operation(
                .acquire(lock: 1, mode: .permits(2), ttlMilliseconds: 9000, waitMilliseconds: 0), client: client,
                requested: 0,
                ended: 1,
                .done(.granted(lease: lease, fence: Int64(client), validForMilliseconds: 8999)))
            history.operation(
                .release(lock: 1, lease: lease), client: client, requested: released - 1, ended: released, .done(.released))
        }
        history.operation(
            .acquire(lock: 1, mode: .permits(2), ttlMilliseconds: 9000, waitMilliseconds: 5000), client: 3,
            requested: 10,
            ended: granted,
            .done(.granted(lease: 3, fence: 3, validForMilliseconds: 8999)))
        #expect(history.violatedInvariants == (isGood ? [] : [.freeLocks]))
    }

    @Test("Each lock of a joint acquire may be held until all are refused")
    func jointLockMayBeHeldUntilAllAreRefused() {
        var history = SyntheticHistory()
        history.operation(
            .acquire(lock: 1, mode: .exclusive, ttlMilliseconds: 9000, waitMilliseconds: 3900, isJoint: true),
            client: 1,
            requested: 50, ended: 3950,
            .refused(.held))
        #expect(refused(at: 4000, after: history).violatedInvariants.isEmpty)
    }

    @Test("A free lock granted late is a violation too", arguments: [(3100.0, true), (3101.0, false)])
    func grantedLate(ended: Double, isGood: Bool) {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 100, answered: ended)
        #expect(history.violatedInvariants == (isGood ? [] : [.freeLocks]))
    }

    @Test("A fault excuses a long wait")
    func faultExcusesLongWait() {
        var history = SyntheticHistory()
        history.fault(.partition, sidecar: 1, from: 1000, to: 3000)
        #expect(refused(at: 5100, after: history).violatedInvariants.isEmpty)
    }

    @Test(
        "A pause of another sidecar excuses only a lease that it may have been granted before", arguments: [1000, 4000])
    func stopped(ttl: Int64) {
        var history = SyntheticHistory()
        history.fault(.pause, sidecar: 3, from: 300, to: 6000)
        history.operation(
            .acquire(lock: 1, mode: .exclusive, ttlMilliseconds: ttl, waitMilliseconds: 5000), client: 3, sidecar: 3,
            requested: 200, ended: 5150,
            .unknown(reason: "timed-out"))
        #expect(refused(at: 5100, after: history).violatedInvariants.contains(.freeLocks) == (ttl == 1000))
    }

    @Test(
        "A sidecar that was paused when a client left may have extended the client's linked lease", arguments: [1000, 4000])
    func leftWhileStopped(ttl: Int64) {
        // The call waits from 100 to 5100, or does not wait.
        for wait in [Int64(5000), 0] {
            var history = SyntheticHistory()
            history.operation(
                .acquire(lock: 1, mode: .exclusive, ttlMilliseconds: ttl, waitMilliseconds: 0), client: 1, sidecar: 3,
                requested: -10_002, ended: -10_000,
                .done(.granted(lease: 1, fence: 10, validForMilliseconds: ttl)))
            history.link(1, of: 1, ttl: ttl, .began, at: -10_000)
            history.fault(.pause, sidecar: 3, from: -9000, to: -1000)
            history.link(1, of: 1, ttl: ttl, .left, at: -8000)
            history.operation(
                .acquire(lock: 1, mode: .exclusive, ttlMilliseconds: 1000, waitMilliseconds: wait), client: 9,
                requested: wait == 0 ? 2900 : 100,
                ended: wait == 0 ? 2901 : 5100, .refused(.held))
            #expect(history.violatedInvariants == (ttl == 4000 ? [] : [.freeLocks]), "\(wait)")
        }
    }

    @Test(
        "Readers behind a writer of a paused sidecar learn of the free lock at their next check",
        arguments: [
            (LeaseMode.shared, 3, 8100.0, true), (.shared, 3, 8101, false), (.exclusive, 3, 3101, false),
            (.shared, 2, 3101, false),
        ])
    func stoppedWriter(mode: LeaseMode, stopped: Int, granted: Double, isGood: Bool) {
        var history = SyntheticHistory()
        history.fault(.pause, sidecar: stopped, from: 300, to: 9000)
        history.operation(
            .acquire(lock: 1, mode: .exclusive, ttlMilliseconds: 10, waitMilliseconds: 50), client: 3, sidecar: 3,
            requested: 30,
            ended: 60,
            .unknown(reason: "timed-out"))
        history.operation(
            .acquire(lock: 1, mode: mode, ttlMilliseconds: 1000, waitMilliseconds: 20_000), client: 9, requested: 100,
            ended: granted,
            .done(.granted(lease: LeaseID(9), fence: 10, validForMilliseconds: 900)))
        #expect(history.violatedInvariants == (isGood ? [] : [.freeLocks]))
    }

    @Test("A lease from before a jump of the Redis clock has no known end until it is released", arguments: [true, false])
    func clock(isReleased: Bool) {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: -20_000, answered: -19_999, valid: 500)
        history.fault(.clock, from: -19_900, to: -19_800)
        if isReleased { history.release(1, of: 1, requested: -19_700, answered: -19_699) }
        #expect(refused(at: 5000, after: history).violatedInvariants.contains(.freeLocks) == isReleased)
    }

    @Test("A lease released during a failover may be held again")
    func leaseReleasedDuringFailoverMayBeHeldAgain() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: -9000, answered: -8999, valid: 14_000)
        history.fault(.failover, from: -8000, to: -7000)
        history.release(1, of: 1, requested: -7500, answered: -7499)
        #expect(!refused(at: 5000, after: history).violatedInvariants.contains(.freeLocks))
    }

    @Test("A paused sidecar may execute earlier requests when it continues")
    func pausedSidecarMayExecuteEarlierRequests() {
        var history = SyntheticHistory()
        history.fault(.pause, sidecar: 3, from: -9000, to: 90)
        history.operation(
            .acquire(lock: 1, mode: .exclusive, ttlMilliseconds: 4000, waitMilliseconds: 0), client: 3, sidecar: 3,
            requested: -8000, ended: -5000,
            .unknown(reason: "timed-out"))
        #expect(!refused(at: 5000, after: history).violatedInvariants.contains(.freeLocks))
    }

    @Test("A refused client that then releases the lock is a violation", arguments: [true, false])
    func refusedClientThatThenReleasesLockIsViolation(isReleased: Bool) {
        var history = refused(at: 200)
        history.operation(
            .release(lock: 1, lease: 7), client: 9, requested: 201, ended: 202, isReleased ? .done(.released) : .refused(.lost))
        #expect(history.violatedInvariants == (isReleased ? [.freeLocks] : []))
    }
}
