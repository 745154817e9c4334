import InterlockCore
import Testing

@Suite("Counting the answers of a quorum, and when to try again")
struct QuorumTallyTests {
    @Test("more than half is a majority", arguments: [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)])
    func majority(servers: Int, majority: Int) {
        #expect(QuorumTally.majority(of: servers) == majority)
    }

    @Test(
        "a verdict comes as soon as nothing can change it",
        arguments: [
            ("", QuorumTally.Verdict.open), ("y", .open), ("yy", .yes), ("nn", .no), ("yn", .open), ("yf", .open), ("nf", .open),
            ("ff", .unknown), ("ynf", .unknown), ("yfy", .yes), ("nfn", .no), ("yny", .yes), ("nyn", .no),
        ])
    func verdict(answers: String, verdict: QuorumTally.Verdict) {
        var tally = QuorumTally(servers: 3)
        for answer in answers { tally.count(answer == "y" ? .yes : answer == "n" ? .no : .failed) }
        #expect(tally.verdict == verdict)
    }

    @Test("half of an even number is not a majority, and half that said no leave none")
    func even() {
        var tally = QuorumTally(servers: 4)
        tally.count(.yes)
        tally.count(.yes)
        #expect(tally.verdict == .open)
        tally.count(.no)
        tally.count(.no)
        #expect(tally.verdict == .no)
    }

    @Test("a waiter tries again after a random pause, after shorter ones near its end, and not when there is no time left")
    func pauses() {
        let now = Instant(nanoseconds: 0)
        func pause(left: Int64, random: Double) -> Int64? {
            QuorumRetry.nextAttempt(after: now, deadline: now.advanced(byMilliseconds: left), random: random)
                .map { $0.millisecondsRoundedUp(since: now) }
        }
        #expect(pause(left: 60_000, random: 0) == QuorumRetry.pauses.lowerBound)
        #expect(pause(left: 60_000, random: 1) == QuorumRetry.pauses.upperBound)
        #expect(pause(left: 60_000, random: 0.5) == 150)
        #expect(pause(left: 100, random: 1) == 50)
        #expect(pause(left: 9, random: 0) == nil)
        #expect(pause(left: -1, random: 0) == nil)
    }

    @Test(
        "a server's time limit is far below the ttl, and never above the longest",
        arguments: [(Int64(50), Int64(10)), (1000, 100), (60_000, 500)])
    func timeouts(ttl: Int64, timeout: Int64) {
        #expect(QuorumRetry.timeout(ttl: ttl, longest: 500) == timeout)
    }
}
