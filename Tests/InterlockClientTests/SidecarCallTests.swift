import RedisClient
import Testing

@testable import InterlockClient

@Suite("RESP commands and their replies in the client")
struct SidecarCallTests {
    private static let acquire = LockCalls.Acquire(name: "a", options: LockOptions(ttl: .seconds(1)))
    private static let take = LimitCalls.Take(UpstreamCallRequest(service: "s"))
    private static let permit = PermitCalls.Acquire(UpstreamCallRequest(service: "s"))

    private static func bulk(_ text: String) -> RedisReply { .bulk(Array(text.utf8)) }

    @Test("A lease has its token, fence and validity")
    func leaseHasTokenFenceAndValidity() throws {
        let lease = try Self.acquire.decode(.array([Self.bulk("me/1"), .integer(17), .integer(980)]))
        #expect(lease == Lease(name: "a", token: "me/1", fence: 17, validMilliseconds: 980, ttlMilliseconds: 1000))
    }

    @Test("A nil reply means held for an acquire, and lost for a renewal")
    func nilReply() throws {
        #expect(try Self.acquire.decode(.null) == nil)
        #expect(try LockCalls.Renew(name: "a", token: "t", ttl: .seconds(1)).decode(.null) == nil)
    }

    @Test("A release reports whether the lock was held")
    func releaseReportsWhetherLockWasHeld() throws {
        #expect(try LockCalls.Release(name: "a", token: "t").decode(.integer(0)) == false)
    }

    @Test("A refused take has a retry time, and a granted one does not")
    func refusedTakeHasRetryTime() throws {
        let refusal = try Self.take.decode(.array([1, 10, 0, 250, 260].map { .integer($0) }))
        #expect(!refusal.isAllowed)
        #expect(refusal.retryAfter == .milliseconds(250))
        #expect(refusal.resetAfter == .milliseconds(260))
        #expect(try Self.take.decode(.array([0, 10, 9, -1, 260].map { .integer($0) })).retryAfter == nil)
    }

    @Test("A permit has its ID and the breaker's state")
    func permitHasIDAndBreakerState() throws {
        let reply = RedisReply.array([.integer(1), Self.bulk("id"), Self.bulk("half_open"), .integer(-1)])
        #expect(try Self.permit.decode(reply) == .success(GrantedPermit(id: "id", state: .halfOpen)))
    }

    @Test("A refused permit has a reason")
    func refusedPermitHasReason() throws {
        let reply = RedisReply.array([.integer(0), Self.bulk("open"), Self.bulk("open"), .integer(90)])
        let refusal = ServiceCallError(refused: .open, service: "s", state: .open, retryAfterMilliseconds: 90)
        #expect(try Self.permit.decode(reply) == .failure(refusal))
    }

    @Test("A reply of an unexpected shape is an error")
    func replyOfUnexpectedShapeIsError() {
        #expect(throws: RedisError.self) { try Self.acquire.decode(.integer(1)) }
        #expect(throws: RedisError.self) { try Self.take.decode(.array([.integer(1)])) }
    }
}
