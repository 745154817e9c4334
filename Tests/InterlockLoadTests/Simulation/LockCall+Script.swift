import Hiredis
import InterlockCore

@testable import Interlock
@testable import InterlockLoad

extension LockCall {
    /// What the real script answers.
    func reply(of redis: SteeredRedis, _ keys: ModelLockKeys) async throws -> RedisReply {
        let keys = LockKeys(space: KeySpace(), name: keys.name)
        switch self {
        case .acquire(let call):
            return try await redis.run(
                Undecoded(
                    base: AcquireScript(
                        keys: keys, token: call.token, ttl: call.ttl, mode: call.mode,
                        candidate: call.onlyOwner ? .presentOwner : .anybody, ticket: call.ticket.map(AcquireScript.Ticket.init),
                        group: call.group)))
        case .renew(let token, let ttl, let isGroup, let isBySidecar):
            return try await redis.run(
                Undecoded(base: RenewScript(keys: keys, token: token, ttl: ttl, isGroup: isGroup, isBySidecar: isBySidecar)))
        case .release(let token, let sidecar, let successor):
            return try await redis.run(
                Undecoded(
                    base: ReleaseScript(
                        keys: keys, token: token, sidecar: sidecar,
                        successor: successor.map {
                            ReleaseScript.Successor(
                                token: $0.token, ttl: $0.ttl, goesOn: $0.goesOn, ticket: AcquireScript.Ticket($0.ticket))
                        })))
        case .releaseShare(let token, let sidecar):
            return try await redis.run(Undecoded(base: ShareReleaseScript(keys: keys, token: token, sidecar: sidecar)))
        case .leave(let ticket, let sidecar):
            return try await redis.run(Undecoded(base: LeaveScript(keys: keys, ticket: ticket, sidecar: sidecar)))
        case .breakLock:
            return try await redis.run(
                Undecoded(base: BreakScript(keys: keys, by: Self.breaker, origin: Self.breakersSidecar, database: 0)))
        }
    }
}

extension AcquireScript.Ticket {
    fileprivate init(_ ticket: LockTicket) {
        self.init(token: ticket.token, lifetime: ticket.lifetime, hasOthers: ticket.hasOthers)
    }
}

/// A script whose reply is not made anything of.
private struct Undecoded<Base: ScriptCommand & Sendable>: ScriptCommand, Sendable {
    var base: Base

    var script: RedisScript { base.script }
    var keyCount: Int { base.keyCount }

    func encodeArguments(into encoder: inout CommandEncoder) {
        base.encodeArguments(into: &encoder)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> RedisReply { reply }
}
