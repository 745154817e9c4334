import InterlockCommandLine
import InterlockCore
import Testing

@testable import InterlockCLI

@Suite("Requesting a lock")
struct CandidacyTests {
    private static let start = Instant(nanoseconds: 1_000_000_000_000)

    private static func at(_ milliseconds: Int64) -> Instant { start.advanced(byMilliseconds: milliseconds) }

    private static func candidacy(_ purpose: RunPlan.Purpose, ttl: Duration = .seconds(30)) -> Candidacy {
        Candidacy(purpose, ttl: ttl, now: start)
    }

    @Test("A wait longer than a sidecar allows is requested in parts until it is over")
    func longWait() {
        var candidacy = Self.candidacy(.once(wait: .seconds(100)))
        let first = candidacy.sidecarConnected(now: Self.at(10))
        #expect(first == Candidacy.Request(waitMilliseconds: 60_000, at: Self.at(10)))
        let second = candidacy.replyReceived(
            isGranted: false, request: first, sentAt: Self.at(10), now: Self.at(60_010))
        #expect(second == .request(Candidacy.Request(waitMilliseconds: 39_990, at: Self.at(60_010))))
        let last = candidacy.replyReceived(
            isGranted: false, request: first, sentAt: Self.at(60_010), now: Self.at(100_000))
        #expect(last == .giveUp)
    }

    @Test("Without a wait one refusal is enough")
    func noWait() {
        var candidacy = Self.candidacy(.once(wait: .zero))
        let request = candidacy.sidecarConnected(now: Self.start)
        #expect(request.waitMilliseconds == 0)
        #expect(
            candidacy.replyReceived(isGranted: false, request: request, sentAt: Self.start, now: Self.at(1)) == .giveUp)
    }

    @Test("A caller that does not wait for the holder still survives a short outage of the sidecar or Redis")
    func shortOutage() {
        var candidacy = Self.candidacy(.once(wait: .zero))
        _ = candidacy.sidecarConnected(now: Self.start)
        #expect(candidacy.attemptFailed(now: Self.at(1)) == Self.at(501))
        #expect(
            candidacy.sidecarConnected(now: Self.at(501)) == Candidacy.Request(waitMilliseconds: 0, at: Self.at(501)))
        #expect(candidacy.attemptFailed(now: Self.at(10_000)) == nil)
    }

    @Test("Other software at a sidecar's address is tolerated for a while, but not from the start")
    func otherSoftware() {
        var candidacy = Self.candidacy(.lead)
        #expect(!candidacy.isUnreachable(.notSidecar))
        #expect(candidacy.isUnreachable(.unavailable))
        _ = candidacy.sidecarConnected(now: Self.start)
        #expect(candidacy.isUnreachable(.notSidecar))
        #expect(Candidacy.refusals.filter(candidacy.isUnreachable) == [.notSidecar])
    }

    @Test("A sidecar that does not wait is not polled constantly")
    func sidecarThatDoesNotWaitIsNotPolledConstantly() {
        var candidacy = Self.candidacy(.lead)
        let request = candidacy.sidecarConnected(now: Self.start)
        let action = candidacy.replyReceived(isGranted: false, request: request, sentAt: Self.start, now: Self.at(1))
        #expect(action == .request(Candidacy.Request(waitMilliseconds: 60_000, at: Self.at(251))))
    }

    @Test("A lease granted after a long wait is requested again, because its end is unknown")
    func staleGrant() {
        var candidacy = Self.candidacy(.lead, ttl: .seconds(3))
        let request = candidacy.sidecarConnected(now: Self.start)
        let action = candidacy.replyReceived(isGranted: true, request: request, sentAt: Self.start, now: Self.at(2000))
        let again = Candidacy.Request(waitMilliseconds: 0, at: Self.at(2000))
        #expect(action == .request(again))
        #expect(
            candidacy.replyReceived(isGranted: true, request: again, sentAt: Self.at(2000), now: Self.at(2001))
                == .start)
    }

    @Test("A lease granted quickly is used immediately")
    func freshGrant() {
        var candidacy = Self.candidacy(.once(wait: .seconds(10)), ttl: .seconds(3))
        let request = candidacy.sidecarConnected(now: Self.start)
        #expect(
            candidacy.replyReceived(isGranted: true, request: request, sentAt: Self.start, now: Self.at(900)) == .start)
    }

    @Test("Only a candidate for election waits for a sidecar that never answered")
    func absentSidecar() {
        var once = Self.candidacy(.once(wait: .seconds(10)))
        #expect(once.attemptFailed(now: Self.at(1)) == nil)
        var lead = Self.candidacy(.lead)
        #expect(lead.attemptFailed(now: Self.at(1)) != nil)
    }

    @Test("A sidecar that disappears is retried with growing pauses until the wait is over")
    func lostSidecarIsRetriedWithGrowingPauses() {
        var candidacy = Self.candidacy(.once(wait: .seconds(10)))
        _ = candidacy.sidecarConnected(now: Self.start)
        #expect(candidacy.attemptFailed(now: Self.start) == Self.at(500))
        #expect(candidacy.attemptFailed(now: Self.at(500)) == Self.at(1500))
        #expect(candidacy.attemptFailed(now: Self.at(9900)) == Self.at(10_000))
        #expect(candidacy.attemptFailed(now: Self.at(10_000)) == nil)
    }

    @Test("A wait for the lock is reported once, after 2 s")
    func waitForLockIsReportedOnce() {
        var candidacy = Self.candidacy(.lead)
        #expect(candidacy.takeDueNotice(now: Self.at(1999)) == false)
        #expect(candidacy.takeDueNotice(now: Self.at(2000)) == true)
        #expect(candidacy.takeDueNotice(now: Self.at(60_000)) == false)
    }
}
