import InterlockCore
import Testing

@Suite("The outage watch: probes in a row")
struct OutageWatchTests {
    private let bad = ProbeFinding.bad("refused")
    private let outage = OutageFinding.down(reason: "refused")

    /// What a watch says to probes one after another, each told at once.
    private func answers(
        to findings: [ProbeFinding], unhealthyAfter: Int = 1, healthyAfter: Int = 2, isOpenByOutage: Bool = false
    ) -> [OutageFinding?] {
        var watch = OutageWatch(unhealthyAfter: unhealthyAfter, healthyAfter: healthyAfter)
        return findings.map { finding in
            let answer = watch.saw(finding, isOpenByOutage: isOpenByOutage)
            if let answer { watch.told(answer) }
            return answer
        }
    }

    @Test("as many bad probes in a row as are an outage are told, and each further one")
    func down() {
        #expect(answers(to: [bad, bad, bad, bad], unhealthyAfter: 3) == [nil, nil, outage, outage])
    }

    @Test("a good probe between bad ones begins the count anew")
    func interrupted() {
        #expect(answers(to: [bad, bad, .good, bad, bad], unhealthyAfter: 3, healthyAfter: 5).allSatisfy { $0 == nil })
    }

    @Test("the end of an outage is told once, after as many good probes in a row as end it")
    func up() {
        #expect(answers(to: [bad, .good, .good, .good, .good]) == [outage, nil, .up, nil, nil])
    }

    @Test("a bad probe between good ones begins their count anew")
    func notYetUp() {
        #expect(answers(to: [bad, .good, bad, .good, .good]) == [outage, nil, outage, nil, .up])
    }

    @Test("a watch that begins says once that the service is up: an earlier one may have told of an outage")
    func afterRestart() {
        #expect(answers(to: [.good, .good, .good, .good], healthyAfter: 3) == [nil, nil, .up, nil])
    }

    @Test("as long as the breaker is open by an outage, each further good probe says that the service is up")
    func heldOpen() {
        #expect(answers(to: [.good, .good, .good], isOpenByOutage: true) == [nil, .up, .up])
    }

    @Test("an outage that another sidecar told of goes on with the first bad probe here")
    func takenOver() {
        #expect(answers(to: [bad], unhealthyAfter: 3, isOpenByOutage: true) == [outage])
    }

    @Test("what could not be told is told again at the next probe")
    func untold() {
        var watch = OutageWatch(unhealthyAfter: 1, healthyAfter: 1)
        let first = watch.saw(.good, isOpenByOutage: false)
        let second = watch.saw(.good, isOpenByOutage: false)
        #expect(first == .up)
        #expect(second == .up)
    }

    @Test("a probe that could not be judged neither counts nor interrupts")
    func unjudged() {
        let nothing = ProbeFinding.unjudged("stopped")
        #expect(answers(to: [bad, nothing, bad], unhealthyAfter: 2) == [nil, nil, outage])
        #expect(answers(to: [.good, nothing, .good]) == [nil, nil, .up])
    }

    @Test("field 4: no bad probe, and none that could not be judged, is ever good news", arguments: 0..<200)
    func neverGoodNews(seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        var watch = OutageWatch(unhealthyAfter: Int.random(in: 1...4, using: &random), healthyAfter: 1)
        for _ in 0..<50 {
            let finding = [ProbeFinding.good, bad, .unjudged("stopped")].randomElement(using: &random) ?? .good
            let answer = watch.saw(finding, isOpenByOutage: .random(using: &random))
            if let answer, Bool.random(using: &random) { watch.told(answer) }
            #expect(answer != .up || finding == .good)
        }
    }

    @Test("a reason is short and visible whatever a service sent")
    func reasons() {
        let reason = ProbeReason("a\u{1B}[31m\r\nb\u{202E}c\(String(repeating: "é", count: 300))")
        #expect(reason.description.hasPrefix("a [31m b c"))
        #expect(reason.description.utf8.count <= ProbeReason.longest)
    }
}
