import InterlockJudge
import InterlockCore
import Testing

@testable import InterlockLoad

@Suite("A client's view of a lease")
struct HeldLockTests {
    private static func instant(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    private func held(end: HeldLock.End = .release, endsAt: Int64, believedUntil: Int64) -> HeldLock {
        HeldLock(
            lock: 0, mode: .exclusive, lease: 1, token: "token", fence: 1, grantedAt: Self.instant(0), end: end,
            endsAt: Self.instant(endsAt), believedUntil: Self.instant(believedUntil))
    }

    @Test("Writes, renewals and the end are in the order of their times")
    func order() {
        var held = held(endsAt: 30, believedUntil: 100)
        held.writesAt = Self.instant(10)
        held.renewsAt = Self.instant(20)
        #expect(held.next.step == .write)
        held.writesAt = nil
        #expect(held.next.step == .renew)
        held.renewsAt = nil
        #expect(held.next.step == .end)
    }

    @Test("A lease that would end too early is renewed at a third of its validity")
    func renewal() {
        var held = held(endsAt: 500, believedUntil: 90)
        held.scheduleRenewal(validFor: 90, now: Self.instant(6))
        #expect(held.renewsAt == Self.instant(36))
    }

    @Test("A lease that lasts until the end is not renewed")
    func noRenewal() {
        var held = held(endsAt: 50, believedUntil: 90)
        held.scheduleRenewal(validFor: 90, now: Self.instant(6))
        #expect(held.renewsAt == nil)
    }

    @Test("A client that overstays does not renew")
    func overstay() {
        var held = held(end: .overstay, endsAt: 500, believedUntil: 90)
        held.scheduleRenewal(validFor: 90, now: Self.instant(6))
        #expect(held.renewsAt == nil)
    }
}
