@testable import InterlockJudge
import Testing

@testable import InterlockLoad

@Suite("Refusals that are relied on")
struct RefusalTests {
    private func taken(leaving remaining: Int64, asked: Double, answered: Double, in history: inout MadeHistory) {
        history.operation(
            .take(service: 0, cost: 1, subject: nil, wait: 0), asked: asked, ended: answered,
            .done(.taken(limit: 5, remaining: remaining, resetAfter: 5000)))
    }

    private let empty = MadeHistory(LimitRule(algorithm: .fixed, limit: 5, window: 5000))

    @Test("a call that is refused more than a second after the limit had room is found")
    func refusedAlthoughThereWasRoom() {
        var history = empty
        taken(leaving: 1, asked: 0, answered: 10, in: &history)
        history.refuse(asked: 1300, answered: 1301)
        #expect(history.broken == [.refusals])
    }

    @Test("what was granted after it has less room, also when its answer came sooner")
    func answersOutOfOrder() {
        var history = empty
        taken(leaving: 0, asked: 0, answered: 10, in: &history)
        taken(leaving: 1, asked: 1, answered: 11, in: &history)
        history.refuse(asked: 1300, answered: 1301)
        #expect(history.broken.isEmpty)
    }
}
