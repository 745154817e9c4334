import InterlockCore
import Testing

@Suite("A lease that is renewed for its holder")
struct HeldLeaseTests {
    private static let start = Instant(nanoseconds: 1_000_000_000_000)
    private static let ttl: Int64 = 900
    /// 900 ms less the allowance for clock drift.
    private static let length: Int64 = 889

    private static func at(_ milliseconds: Int64) -> Instant { start.advanced(byMilliseconds: milliseconds) }

    /// A lease that was granted at the start, without a delay.
    private static func lease(ttl: Int64 = 900, isAutoRenewed: Bool = true, maximumHold: Int64? = nil) -> HeldLease {
        HeldLease(
            ttlMilliseconds: ttl, deadline: LeaseValidity.deadline(ttlMilliseconds: ttl, sentAt: start),
            isAutoRenewed: isAutoRenewed,
            maximumHoldMilliseconds: maximumHold, now: start)
    }

    // MARK: Renewals

    @Test("A lease is renewed after a third of its time and not before")
    func firstRenewal() {
        let lease = Self.lease()
        let third = Self.length / 3
        #expect(lease.step(now: Self.start) == .wait(until: Self.at(third)))
        #expect(lease.step(now: Self.at(third - 1)) == .wait(until: Self.at(third)))
        #expect(lease.step(now: Self.at(third)) == .renew(ttlMilliseconds: Self.ttl))
    }

    @Test("After a slow grant a lease is renewed after a third of what remained")
    func lateGrant() {
        let lease = HeldLease(
            ttlMilliseconds: Self.ttl, deadline: Self.at(90), isAutoRenewed: true, maximumHoldMilliseconds: nil,
            now: Self.start)
        #expect(lease.step(now: Self.start) == .wait(until: Self.at(30)))
        #expect(lease.step(now: Self.at(30)) == .renew(ttlMilliseconds: Self.ttl))
    }

    @Test("A late renewal is still sent, until the very end", arguments: [Int64(301), 600, 888])
    func lateRenewal(moment: Int64) {
        #expect(Self.lease().step(now: Self.at(moment)) == .renew(ttlMilliseconds: Self.ttl))
    }

    @Test("While a renewal is in flight nothing else is sent")
    func oneAtATime() {
        var lease = Self.lease()
        lease.renewalBegan()
        for moment in [300, 301, 600, Self.length - 1] {
            #expect(lease.step(now: Self.at(moment)) == .wait(until: lease.deadline))
        }
        #expect(lease.step(now: Self.at(Self.length)) == .over)
    }

    @Test("Each renewal counts from the time when it was sent")
    func renewalSucceeded() {
        var lease = Self.lease()
        lease.renewalBegan()
        lease.renewalSucceeded(ttlMilliseconds: Self.ttl, sentAt: Self.at(300))
        #expect(lease.deadline == LeaseValidity.deadline(ttlMilliseconds: Self.ttl, sentAt: Self.at(300)))
        #expect(lease.step(now: Self.at(350)) == .wait(until: Self.at(600)))
        #expect(lease.step(now: Self.at(600)) == .renew(ttlMilliseconds: Self.ttl))
    }

    @Test("A renewal that took longer than a third is followed by the next one immediately")
    func slowAnswer() {
        var lease = Self.lease()
        lease.renewalBegan()
        lease.renewalSucceeded(ttlMilliseconds: Self.ttl, sentAt: Self.at(300))
        #expect(lease.step(now: Self.at(880)) == .renew(ttlMilliseconds: Self.ttl))
    }

    @Test("A renewal never shortens the lease")
    func neverShorter() {
        var lease = Self.lease()
        let deadline = lease.deadline
        lease.renewalBegan()
        lease.renewalSucceeded(ttlMilliseconds: 10, sentAt: Self.at(300))
        #expect(lease.deadline == deadline)
    }

    @Test("A lease that is not renewed ends")
    func notExtended() {
        let lease = Self.lease(isAutoRenewed: false)
        for moment in [0, 300, 600, Self.length - 1] {
            #expect(lease.step(now: Self.at(moment)) == .wait(until: lease.deadline))
        }
        #expect(lease.step(now: Self.at(Self.length)) == .over)
    }

    @Test("Renewal can be switched on and off at any time")
    func switchedOnAndOff() {
        var lease = Self.lease(isAutoRenewed: false)
        lease.isAutoRenewed = true
        #expect(lease.step(now: Self.at(400)) == .renew(ttlMilliseconds: Self.ttl))
        lease.isAutoRenewed = false
        #expect(lease.step(now: Self.at(400)) == .wait(until: lease.deadline))
    }

    // MARK: Failures

    @Test(
        "A failed renewal is retried after a tenth of the length or half a second, whichever is shorter",
        arguments: [
            (30_000, HeldLease.maximumRetryMilliseconds), (5000, HeldLease.maximumRetryMilliseconds), (4990, 499),
            (900, 90), (100, 10), (15, 1), (9, 1),
        ] as [(Int64, Int64)])
    func retry(ttl: Int64, pause: Int64) {
        var lease = Self.lease(ttl: ttl)
        let moment = ttl / 3
        lease.renewalBegan()
        lease.renewalFailed(now: Self.at(moment))
        #expect(lease.step(now: Self.at(moment)) == .wait(until: Self.at(moment + pause)))
        #expect(lease.step(now: Self.at(moment + pause)) == .renew(ttlMilliseconds: ttl))
    }

    @Test("Renewals are retried until the end, and failures do not move the end", arguments: [Int64(100), 900, 30_000])
    func failuresUntilTheEnd(ttl: Int64) {
        var lease = Self.lease(ttl: ttl)
        let deadline = lease.deadline
        var now = Self.start
        var attempts = 0
        var isOver = false
        while !isOver, attempts < 1000 {
            switch lease.step(now: now) {
            case .renew:
                attempts += 1
                lease.renewalBegan()
                lease.renewalFailed(now: now)
            case .wait(let until):
                #expect(until > now)
                now = until
            case .over:
                isOver = true
            }
        }
        #expect(isOver)
        #expect(attempts >= 6)
        #expect(lease.deadline == deadline)
    }

    @Test("No retry is scheduled beyond the end", arguments: [Int64(1), 50, 89])
    func neverWaitsBeyondTheEnd(before: Int64) {
        var lease = Self.lease()
        let moment = Self.at(Self.length - before)
        lease.renewalBegan()
        lease.renewalFailed(now: moment)
        #expect(lease.step(now: moment) == .wait(until: lease.deadline))
    }

    // MARK: The end

    @Test("A lease ends at its deadline to the nanosecond whether or not it was renewed", arguments: [true, false])
    func over(isAutoRenewed: Bool) {
        let lease = Self.lease(isAutoRenewed: isAutoRenewed)
        let justBefore = Instant(nanoseconds: lease.deadline.nanoseconds - 1)
        #expect(lease.step(now: justBefore) != .over)
        #expect(lease.step(now: lease.deadline) == .over)
        #expect(lease.step(now: .distantFuture) == .over)
    }

    @Test("After a jump of the clock the lease is over, whatever was due or in flight", arguments: [true, false])
    func jump(isInFlight: Bool) {
        var lease = Self.lease()
        if isInFlight { lease.renewalBegan() }
        #expect(lease.step(now: Self.at(3_600_000)) == .over)
    }

    @Test("A renewal by the holder moves the end but not the next renewal")
    func movedForward() {
        var lease = Self.lease()
        let third = Self.length / 3
        lease.updateDeadline(to: Self.at(5000), now: Self.start)
        #expect(lease.deadline == Self.at(5000))
        #expect(lease.step(now: Self.start) == .wait(until: Self.at(third)))
        #expect(lease.step(now: Self.at(4999)) == .renew(ttlMilliseconds: Self.ttl))
        #expect(lease.step(now: Self.at(5000)) == .over)
    }

    @Test("The holder may shorten the lease")
    func movedBack() {
        var lease = Self.lease(isAutoRenewed: false)
        lease.updateDeadline(to: Self.at(100), now: Self.start)
        #expect(lease.step(now: Self.at(99)) == .wait(until: Self.at(100)))
        #expect(lease.step(now: Self.at(100)) == .over)
    }

    @Test("A lease that its holder shortened is renewed correspondingly earlier")
    func extendedEarlier() {
        var lease = Self.lease()
        lease.updateDeadline(to: Self.at(100), now: Self.at(10))
        #expect(lease.step(now: Self.at(10)) == .wait(until: Self.at(40)))
        #expect(lease.step(now: Self.at(40)) == .renew(ttlMilliseconds: Self.ttl))
    }

    // MARK: The maximum hold

    @Test("A renewal does not exceed the maximum hold")
    func shortenedRenewal() {
        let lease = Self.lease(maximumHold: 1000)
        #expect(lease.maximumHoldEnd == Self.at(1000))
        #expect(lease.step(now: Self.at(300)) == .renew(ttlMilliseconds: 700))
        #expect(lease.step(now: Self.at(800)) == .renew(ttlMilliseconds: 200))
    }

    @Test("A renewal that the maximum hold makes useless is not sent", arguments: [Int64(1), 100, 889])
    func nothingToGain(maximumHold: Int64) {
        let lease = Self.lease(maximumHold: maximumHold)
        for moment in [0, 300, 600, Self.length - 1] {
            #expect(lease.step(now: Self.at(moment)) == .wait(until: lease.deadline))
        }
    }

    @Test(
        "With immediate answers the lease lasts nearly as long as the maximum hold allows",
        arguments: [Int64(1000), 5000, 60_000])
    func heldUntilTheMaximum(maximumHold: Int64) {
        var lease = Self.lease(maximumHold: maximumHold)
        var now = Self.start
        var renewals = 0
        var isOver = false
        while !isOver, renewals < 1000 {
            switch lease.step(now: now) {
            case .renew(let ttl):
                renewals += 1
                #expect(now.advanced(byMilliseconds: ttl) <= Self.at(maximumHold))
                lease.renewalBegan()
                lease.renewalSucceeded(ttlMilliseconds: ttl, sentAt: now)
            case .wait(let until):
                #expect(until > now)
                now = until
            case .over:
                isOver = true
            }
        }
        #expect(isOver)
        #expect(now <= Self.at(maximumHold))
        #expect(now >= Self.at(maximumHold - Self.ttl / 3))
    }

    // MARK: Random sequences

    @Test("In any sequence at most one renewal is in flight, none exceeds the maximum hold and none follows the end")
    func randomRuns() {
        for seed in 0..<5000 {
            var run = RandomRun(seed: UInt64(seed))
            for _ in 0..<60 where !run.isOver { run.step() }
        }
    }
}

/// A lease and its pending renewal.
private struct RandomRun {
    private var random: SeededRandom
    private var now: Instant
    private var lease: HeldLease
    private var inFlight: (ttl: Int64, sentAt: Instant)?
    private(set) var isOver = false

    init(seed: UInt64) {
        let start = Instant(nanoseconds: 1_000_000_000_000)
        var random = SeededRandom(seed: seed)
        let ttl = Int64.random(in: LeaseValidity.absoluteMinimumTTLMilliseconds...2000, using: &random)
        lease = HeldLease(
            ttlMilliseconds: ttl, deadline: LeaseValidity.deadline(ttlMilliseconds: ttl, sentAt: start),
            isAutoRenewed: Bool.random(using: &random),
            maximumHoldMilliseconds: Bool.random(using: &random) ? Int64.random(in: 1...10_000, using: &random) : nil, now: start)
        now = start
        self.random = random
    }

    mutating func step() {
        switch random.next() % 8 {
        case 0:
            lease.isAutoRenewed.toggle()
        case 1:
            guard let inFlight else { return }
            self.inFlight = nil
            let deadline = lease.deadline
            lease.renewalSucceeded(ttlMilliseconds: inFlight.ttl, sentAt: inFlight.sentAt)
            #expect(lease.deadline >= deadline)
        case 2:
            guard inFlight != nil else { return }
            inFlight = nil
            let deadline = lease.deadline
            lease.renewalFailed(now: now)
            #expect(lease.deadline == deadline)
        case 3:
            lease.updateDeadline(to: now.advanced(byMilliseconds: Int64.random(in: 1...3000, using: &random)), now: now)
        default:
            // Most steps are short; some are as long as a suspension of the process.
            let longest: Int64 = random.next() % 10 == 0 ? 3000 : 40
            now = now.advanced(byMilliseconds: Int64.random(in: 0...longest, using: &random))
        }
        check()
    }

    private mutating func check() {
        switch lease.step(now: now) {
        case .over:
            #expect(now >= lease.deadline)
            isOver = true
        case .wait(let until):
            #expect(now < lease.deadline)
            #expect(until > now && until <= lease.deadline)
        case .renew(let ttl):
            #expect(now < lease.deadline)
            #expect(lease.isAutoRenewed && inFlight == nil)
            #expect((LeaseValidity.absoluteMinimumTTLMilliseconds...lease.ttlMilliseconds).contains(ttl))
            if let maximumHold = lease.maximumHoldEnd { #expect(now.advanced(byMilliseconds: ttl) <= maximumHold) }
            lease.renewalBegan()
            inFlight = (ttl, now)
        }
    }
}
