@testable import InterlockJudge
import Hiredis
import InterlockCore
import Testing

@testable import InterlockLoad

@Suite("Commands of the RESP door, as a run reads their answers")
struct DoorCommandTests {
    private static let acquire = DoorCommand.acquire(lock: "a", ttl: 1000, wait: 0, mode: .exclusive)
    private static let take = DoorCommand.take(service: "s", cost: 1, subject: nil, wait: 0)
    private static let permit = DoorCommand.permit(service: "s", wait: 0)

    private static func bulk(_ text: String) -> RedisReply { .bulk(Array(text.utf8)) }

    @Test("a lease has its token, fence and validity")
    func lease() throws {
        let answer = try Self.acquire.decode(.array([Self.bulk("me/1"), .integer(17), .integer(980)]))
        guard case .lease(token: "me/1", fence: 17, validFor: 980) = answer else { return #expect(Bool(false), "\(answer)") }
    }

    @Test("nothing means held of an acquire, and lost of a renewal")
    func nothing() throws {
        let acquired = try Self.acquire.decode(.null)
        guard case .refused(.held) = acquired else { return #expect(Bool(false), "\(acquired)") }
        let renewed = try DoorCommand.renew(lock: "a", token: "t", ttl: 1000).decode(.null)
        guard case .refused(.lost) = renewed else { return #expect(Bool(false), "\(renewed)") }
    }

    @Test("a release of what is not held is lost")
    func release() throws {
        let answer = try DoorCommand.release(lock: "a", token: "t").decode(.integer(0))
        guard case .refused(.lost) = answer else { return #expect(Bool(false), "\(answer)") }
    }

    @Test("a limited take says when to come again")
    func limited() throws {
        let answer = try Self.take.decode(.array([1, 10, 0, 250, 250].map { .integer($0) }))
        guard case .refused(.limited(retryAfter: 250)) = answer else { return #expect(Bool(false), "\(answer)") }
    }

    @Test("a permit has its ID and the breaker's state")
    func granted() throws {
        let answer = try Self.permit.decode(.array([.integer(1), Self.bulk("id"), Self.bulk("half_open"), .integer(-1)]))
        guard case .permit(id: "id", state: .halfOpen) = answer else { return #expect(Bool(false), "\(answer)") }
    }

    @Test("a permit is refused for a reason")
    func refused() throws {
        let answer = try Self.permit.decode(.array([.integer(0), Self.bulk("open"), Self.bulk("open"), .integer(90)]))
        guard case .refused(.open(retryAfter: 90)) = answer else { return #expect(Bool(false), "\(answer)") }
    }

    @Test("what no command answers is not guessed at")
    func unreadable() {
        #expect(throws: RedisError.self) { try Self.acquire.decode(.integer(1)) }
        #expect(throws: RedisError.self) { try Self.take.decode(.array([.integer(1)])) }
    }

    @Test("a lost answer is unknown, and what was never sent has failed")
    func failures() {
        #expect(OperationEnding(RedisError(.answerLost, "")) == .unknown(reason: "answer-lost"))
        #expect(OperationEnding(RedisError(.timedOut, "")) == .unknown(reason: "timed-out"))
        #expect(OperationEnding(RedisError(.unexpectedReply, "")) == .unknown(reason: "unreadable"))
        #expect(OperationEnding(RedisError(.notConnected, "")) == .failed(code: "not-connected"))
        let unavailable = RedisError(.server(ServerCondition(rawValue: "UNAVAILABLE")), "UNAVAILABLE Redis is away")
        #expect(OperationEnding(unavailable) == .failed(code: "UNAVAILABLE"))
        let unknown = RedisError(
            .server(ServerCondition(rawValue: "INVALID")),
            "INVALID no such permit of search: it is unknown, was reported before, or is older than permit_ttl")
        #expect(OperationEnding(unknown) == .failed(code: "INVALID: no such permit"))
    }
}
