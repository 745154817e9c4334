import InterlockClient
import Testing

@testable import InterlockJudge
@testable import InterlockLoad

@Suite("The ending of an operation without a reply")
struct OperationEndingTests {
    @Test("An operation whose answer is lost is unknown, and an unsent operation has failed")
    func operationWithLostAnswerIsUnknown() {
        #expect(OperationEnding(InterlockError(.responseLost, "")) == .unknown(reason: "answer-lost"))
        #expect(OperationEnding(InterlockError(.responseTimedOut, "")) == .unknown(reason: "timed-out"))
        #expect(OperationEnding(InterlockError(.invalidResponse, "")) == .unknown(reason: "unreadable"))
        #expect(OperationEnding(InterlockError(.notConnected, "")) == .failed(code: "not-connected"))
        let unavailable = InterlockError(.unavailable, "Redis is down", isFromSidecar: true)
        #expect(OperationEnding(unavailable) == .failed(code: "UNAVAILABLE"))
        let unknown = InterlockError(
            .invalid, "no such permit of search: it is unknown, was reported before, or is older than permit_ttl",
            isFromSidecar: true)
        #expect(OperationEnding(unknown) == .failed(code: "INVALID: no such permit"))
    }

    @Test("A refusal has a known reason or keeps its own word")
    func refusalHasKnownReasonOrKeepsItsWord() {
        #expect(Refusal(reason: "open", retryAfterMilliseconds: 90) == .open(retryAfterMilliseconds: 90))
        #expect(Refusal(reason: "limited", retryAfterMilliseconds: 250) == .limited(retryAfterMilliseconds: 250))
        #expect(Refusal(reason: "busy", retryAfterMilliseconds: -1) == .busy(retryAfterMilliseconds: -1))
        #expect(Refusal(reason: "closing", retryAfterMilliseconds: -1) == .other("closing"))
    }
}
