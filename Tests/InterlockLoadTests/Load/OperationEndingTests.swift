import InterlockClient
import Testing

@testable import InterlockJudge
@testable import InterlockLoad

@Suite("The ending of an operation without a reply")
struct OperationEndingTests {
    @Test("A lost answer is unknown, and an unsent operation has failed")
    func failures() {
        #expect(OperationEnding(InterlockError(.answerLost, "")) == .unknown(reason: "answer-lost"))
        #expect(OperationEnding(InterlockError(.answerTimedOut, "")) == .unknown(reason: "timed-out"))
        #expect(OperationEnding(InterlockError(.unreadable, "")) == .unknown(reason: "unreadable"))
        #expect(OperationEnding(InterlockError(.notConnected, "")) == .failed(code: "not-connected"))
        let unavailable = InterlockError(.unavailable, "Redis is away", isAnswer: true)
        #expect(OperationEnding(unavailable) == .failed(code: "UNAVAILABLE"))
        let unknown = InterlockError(
            .invalid, "no such permit of search: it is unknown, was reported before, or is older than permit_ttl",
            isAnswer: true)
        #expect(OperationEnding(unknown) == .failed(code: "INVALID: no such permit"))
    }

    @Test("A refusal has one of the known codes or keeps its word")
    func refusals() {
        #expect(Refusal(reason: "open", retryAfter: 90) == .open(retryAfter: 90))
        #expect(Refusal(reason: "limited", retryAfter: 250) == .limited(retryAfter: 250))
        #expect(Refusal(reason: "busy", retryAfter: -1) == .busy(retryAfter: -1))
        #expect(Refusal(reason: "closing", retryAfter: -1) == .other("closing"))
    }
}
