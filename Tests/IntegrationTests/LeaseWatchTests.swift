import InterlockCore
import Testing

@testable import InterlockCLI

/// Tests with a lease of 10 s, which is renewed every second and ends after 9.898 s.
@Suite("Renewing a command's lease and ending the command")
struct LeaseWatchTests {
    private static let start = Instant(nanoseconds: 1_000_000_000_000)
    private static let deadlineMilliseconds: Int64 = 9898

    private static func at(_ milliseconds: Int64) -> Instant { start.advanced(byMilliseconds: milliseconds) }

    private static func watch(isStrict: Bool = false) -> LeaseWatch {
        LeaseWatch(ttlMilliseconds: 10_000, sentAt: start, isStrict: isStrict)
    }

    @Test("A lease is renewed every second, measured from the last renewal")
    func leaseIsRenewedEverySecond() {
        var watch = Self.watch()
        #expect(watch.next(now: Self.at(200)) == .wait(until: Self.at(1000)))
        #expect(watch.next(now: Self.at(1000)) == .renew(sentAt: Self.at(1000)))
        #expect(watch.next(now: Self.at(1001)) == .wait(until: Self.at(Self.deadlineMilliseconds)))
        watch.renewalSucceeded(sentAt: Self.at(1000))
        #expect(watch.next(now: Self.at(1300)) == .wait(until: Self.at(2000)))
        #expect(watch.isHeld(at: Self.at(1000 + Self.deadlineMilliseconds - 1)))
        #expect(!watch.isHeld(at: Self.at(1000 + Self.deadlineMilliseconds)))
    }

    @Test("A short lease is renewed after a third of its ttl")
    func shortLease() {
        var watch = LeaseWatch(ttlMilliseconds: 600, sentAt: Self.start, isStrict: false)
        #expect(watch.next(now: Self.start) == .wait(until: Self.at(200)))
    }

    @Test("An unanswered renewal is repeated until the deadline, which it does not move")
    func unansweredRenewalIsRepeatedUntilDeadline() {
        var watch = Self.watch()
        _ = watch.next(now: Self.at(1000))
        watch.renewalUnanswered(sentAt: Self.at(1000), now: Self.at(1100))
        #expect(watch.next(now: Self.at(1100)) == .wait(until: Self.at(1600)))
        #expect(watch.next(now: Self.at(1600)) == .renew(sentAt: Self.at(1600)))
        #expect(watch.next(now: Self.at(Self.deadlineMilliseconds - 1)) == .wait(until: Self.at(Self.deadlineMilliseconds)))
        #expect(!watch.isLost)
        #expect(watch.next(now: Self.at(Self.deadlineMilliseconds)) == .terminate)
        #expect(watch.isLost)
    }

    @Test("After the deadline a command has 5 s to end")
    func grace() {
        var watch = Self.watch()
        #expect(watch.next(now: Self.at(Self.deadlineMilliseconds)) == .terminate)
        #expect(watch.isEnding)
        #expect(
            watch.next(now: Self.at(Self.deadlineMilliseconds + 10)) == .wait(until: Self.at(Self.deadlineMilliseconds + 5000)))
        #expect(watch.next(now: Self.at(Self.deadlineMilliseconds + 5000)) == .kill)
        #expect(!watch.isEnding)
        #expect(watch.next(now: Self.at(Self.deadlineMilliseconds + 5001)) == .wait(until: .distantFuture))
    }

    @Test("A late wake-up gives the command at most 5 s after the deadline")
    func lateWake() {
        var watch = Self.watch()
        #expect(watch.next(now: Self.at(60_000)) == .terminate)
        #expect(watch.next(now: Self.at(60_000)) == .kill)
    }

    @Test("A lost lease ends the command immediately")
    func lostLeaseEndsCommandImmediately() {
        var watch = Self.watch()
        _ = watch.next(now: Self.at(1000))
        watch.renewalRejected(sentAt: Self.at(1000), now: Self.at(1002))
        #expect(watch.next(now: Self.at(1003)) == .terminate)
        #expect(watch.next(now: Self.at(1003)) == .wait(until: Self.at(6002)))
    }

    @Test("In strict mode the command is killed at the deadline, or immediately when the lease is lost earlier")
    func strict() {
        var late = Self.watch(isStrict: true)
        #expect(late.next(now: Self.at(Self.deadlineMilliseconds)) == .kill)
        #expect(late.next(now: Self.at(Self.deadlineMilliseconds)) == .wait(until: .distantFuture))

        var broken = Self.watch(isStrict: true)
        _ = broken.next(now: Self.at(1000))
        broken.renewalRejected(sentAt: Self.at(1000), now: Self.at(1002))
        #expect(broken.next(now: Self.at(1002)) == .kill)
    }

    @Test("Late replies, and replies to another lease's renewals, change nothing")
    func strayAnswers() {
        var watch = Self.watch()
        _ = watch.next(now: Self.at(1000))
        watch.renewalRejected(sentAt: Self.at(-500), now: Self.at(1001))
        watch.renewalSucceeded(sentAt: Self.at(-500))
        #expect(watch.next(now: Self.at(1001)) == .wait(until: Self.at(Self.deadlineMilliseconds)))
        _ = watch.next(now: Self.at(Self.deadlineMilliseconds))
        watch.renewalSucceeded(sentAt: Self.at(1000))
        #expect(watch.isLost)
    }
}
