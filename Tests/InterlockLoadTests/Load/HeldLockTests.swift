import InterlockJudge
import InterlockCore
import Testing

@testable import InterlockLoad

@Suite("A client's view of a lease")
struct HeldLockTests {
    private static func instant(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    private func heldLock(end: HeldLock.End = .release, endsAt: Int64, believedUntil: Int64) -> HeldLock {
        HeldLock(
            lock: 0, mode: .exclusive, lease: 1, token: "token", fence: 1, grantedAt: Self.instant(0), end: end,
            endsAt: Self.instant(endsAt), believedUntil: Self.instant(believedUntil))
    }

    @Test("Writes, renewals and the end are in the order of their times")
    func writesRenewalsAndEndAreInOrderOfTimes() {
        var lock = heldLock(endsAt: 30, believedUntil: 100)
        lock.writesAt = Self.instant(10)
        lock.renewsAt = Self.instant(20)
        #expect(lock.next.step == .write)
        lock.writesAt = nil
        #expect(lock.next.step == .renew)
        lock.renewsAt = nil
        #expect(lock.next.step == .end)
    }

    @Test("A lease that would end too early is renewed at a third of its validity")
    func renewal() {
        var lock = heldLock(endsAt: 500, believedUntil: 90)
        lock.scheduleRenewal(validForMilliseconds: 90, now: Self.instant(6))
        #expect(lock.renewsAt == Self.instant(36))
    }

    @Test("A lease that lasts until the end is not renewed")
    func noRenewal() {
        var lock = heldLock(endsAt: 50, believedUntil: 90)
        lock.scheduleRenewal(validForMilliseconds: 90, now: Self.instant(6))
        #expect(lock.renewsAt == nil)
    }

    @Test("A client that overstays does not renew")
    func clientThatOverstaysDoesNotRenew() {
        var lock = heldLock(end: .overstay, endsAt: 500, believedUntil: 90)
        lock.scheduleRenewal(validForMilliseconds: 90, now: Self.instant(6))
        #expect(lock.renewsAt == nil)
    }
}
