import Testing

@testable import InterlockJudge

@Suite("Justified refusals")
struct RefusalTests {
    private func taken(leaving remaining: Int64, requested: Double, answered: Double, in history: inout SyntheticHistory) {
        history.operation(
            .take(service: 0, cost: 1, subject: nil, waitMilliseconds: 0), requested: requested, ended: answered,
            .done(.taken(limit: 5, remaining: remaining, resetAfterMilliseconds: 5000)))
    }

    private let empty = SyntheticHistory(LimitRule(algorithm: .fixed, limit: 5, windowMilliseconds: 5000))

    @Test("A call refused more than a second after the limit had free capacity is a violation")
    func refusedDespiteFreeCapacity() {
        var history = empty
        taken(leaving: 1, requested: 0, answered: 10, in: &history)
        history.refuse(requested: 1300, answered: 1301)
        #expect(history.violatedInvariants == [.refusals])
    }

    @Test("Later grants reduce the free capacity, even if their answers came sooner")
    func answersOutOfOrder() {
        var history = empty
        taken(leaving: 0, requested: 0, answered: 10, in: &history)
        taken(leaving: 1, requested: 1, answered: 11, in: &history)
        history.refuse(requested: 1300, answered: 1301)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test(
        "A limit whose counter was lost has its full capacity at the end of the recovery, minus the grants since the loss",
        arguments: [(taken: 4, isGood: false), (taken: 5, isGood: true)])
    func emptied(taken count: Int, isGood: Bool) {
        var history = empty
        history.fault(.redisWipe, from: 0, to: 10)
        for number in 0..<count { history.take(requested: Double(5 + 10 * number), answered: Double(6 + 10 * number)) }
        history.refuse(requested: 4300, answered: 4301)
        #expect(history.violatedInvariants == (isGood ? [] : [.refusals]))
    }
}
