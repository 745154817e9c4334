import InterlockCore
import Testing

@Suite("The outage watch")
struct OutageWatchTests {
    private let bad = ProbeFinding.bad("refused")
    private let outage = OutageFinding.down(reason: "refused")

    /// Returns the watch's findings for a sequence of probes, each of which is reported.
    private func answers(
        to findings: [ProbeFinding], unhealthyAfter: Int = 1, healthyAfter: Int = 2, isOpenByOutage: Bool = false
    ) -> [OutageFinding?] {
        var watch = OutageWatch(unhealthyAfter: unhealthyAfter, healthyAfter: healthyAfter)
        return findings.map { finding in
            let report = watch.record(finding, isOpenByOutage: isOpenByOutage)
            if let report { watch.findingReported(report) }
            return report
        }
    }

    @Test("The bad probe that completes an outage is reported, and so is each further one")
    func probeThatCompletesOutageIsReported() {
        #expect(answers(to: [bad, bad, bad, bad], unhealthyAfter: 3) == [nil, nil, outage, outage])
    }

    @Test("A good probe between bad ones restarts their count")
    func goodProbeBetweenBadOnesRestartsCount() {
        #expect(answers(to: [bad, bad, .good, bad, bad], unhealthyAfter: 3, healthyAfter: 5).allSatisfy { $0 == nil })
    }

    @Test("The end of an outage is reported once, after enough good probes in a row")
    func outageEndIsReportedOnce() {
        #expect(answers(to: [bad, .good, .good, .good, .good]) == [outage, nil, .up, nil, nil])
    }

    @Test("A bad probe between good ones restarts their count")
    func notYetUp() {
        #expect(answers(to: [bad, .good, bad, .good, .good]) == [outage, nil, outage, nil, .up])
    }

    @Test("A new watch reports once that the service is up because an earlier watch may have reported an outage")
    func afterRestart() {
        #expect(answers(to: [.good, .good, .good, .good], healthyAfter: 3) == [nil, nil, .up, nil])
    }

    @Test("While an outage keeps the breaker open, each further good probe reports that the service is up")
    func heldOpen() {
        #expect(answers(to: [.good, .good, .good], isOpenByOutage: true) == [nil, .up, .up])
    }

    @Test("An outage reported by another sidecar continues with the first bad probe here")
    func takenOver() {
        #expect(answers(to: [bad], unhealthyAfter: 3, isOpenByOutage: true) == [outage])
    }

    @Test("A finding that could not be reported is reported again with the next probe")
    func unreported() {
        var watch = OutageWatch(unhealthyAfter: 1, healthyAfter: 1)
        let first = watch.record(.good, isOpenByOutage: false)
        let second = watch.record(.good, isOpenByOutage: false)
        #expect(first == .up)
        #expect(second == .up)
    }

    @Test("A probe without a result neither counts nor interrupts a count")
    func withoutResult() {
        let unjudged = ProbeFinding.unjudged("stopped")
        #expect(answers(to: [bad, unjudged, bad], unhealthyAfter: 2) == [nil, nil, outage])
        #expect(answers(to: [.good, unjudged, .good]) == [nil, nil, .up])
    }

    @Test("Only a good probe reports that the service is up", arguments: 0..<200)
    func onlyGoodProbesReportUp(seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        var watch = OutageWatch(unhealthyAfter: Int.random(in: 1...4, using: &random), healthyAfter: 1)
        for _ in 0..<50 {
            let finding = [ProbeFinding.good, bad, .unjudged("stopped")].randomElement(using: &random) ?? .good
            let report = watch.record(finding, isOpenByOutage: .random(using: &random))
            if let report, Bool.random(using: &random) { watch.findingReported(report) }
            #expect(report != .up || finding == .good)
        }
    }

    @Test("A reason is short and printable, whatever the service sent")
    func reasonIsShortAndPrintable() {
        let reason = ProbeReason("a\u{1B}[31m\r\nb\u{202E}c\(String(repeating: "é", count: 300))")
        #expect(reason.description.hasPrefix("a [31m b c"))
        #expect(reason.description.utf8.count <= ProbeReason.maximumBytes)
    }
}
