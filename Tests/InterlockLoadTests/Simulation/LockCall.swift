import Hiredis
import InterlockCore
import InterlockLoad

@testable import InterlockLoad

/// A call of one of the scripts of locks.
enum LockCall {
    case acquire(AcquireCall)
    case renew(token: String, ttl: Int64, isGroup: Bool, isBySidecar: Bool)
    case release(token: String, sidecar: String, LockSuccessor?)
    case releaseShare(token: String, sidecar: String)
    case leave(ticket: String, sidecar: String)
    case breakLock

    struct AcquireCall {
        var token: String
        var ttl: Int64
        var mode: LockMode
        var onlyOwner: Bool
        var ticket: LockTicket?
        var group: String
    }

    static let events = "interlock:events"
    static let breaker = "ops"
    static let breakersSidecar = "aaaaaaaaaaaa"

    /// What the model answers, as the real scripts put it.
    func reply(of model: inout ModelRedis, _ keys: ModelLockKeys) -> RedisReply {
        switch self {
        case .acquire(let call):
            return reply(call.reply(of: &model, keys))
        case .renew(let token, let ttl, false, let isBySidecar):
            return .integer(model.renew(keys, token: token, ttl: ttl, isBySidecar: isBySidecar).rawValue)
        case .renew(let token, let ttl, true, let isBySidecar):
            return .integer(model.renewShare(keys, token: token, ttl: ttl, isBySidecar: isBySidecar) ? 1 : 0)
        case .release(let token, let sidecar, let successor):
            switch model.release(keys, token: token, sidecar: sidecar, successor: successor) {
            case .refused(let standing): return .integer(standing.rawValue)
            case .freed: return .integer(1)
            case .freedForOthers(let isFirst): return .array([.integer(1), .integer(isFirst ? 1 : 0)])
            case .passedOn(let fence, let beginsTurn):
                return .array([.integer(2), .integer(fence), .integer(beginsTurn ? 1 : 0)])
            }
        case .releaseShare(let token, let sidecar):
            return .integer(model.releaseShare(keys, token: token, sidecar: sidecar) ? 1 : 0)
        case .leave(let ticket, let sidecar):
            return .integer(model.leave(keys, ticket: ticket, sidecar: sidecar) ? 1 : 0)
        case .breakLock:
            let before =
                #"{"v":1,"type":"lock.broken","origin":"\#(Self.breakersSidecar)","db":0,"lock":"\#(keys.name)","by":"\#(Self.breaker)","at_ms":"#
            return .integer(model.breakLock(keys, events: Self.events, event: (before, "}")) ? 1 : 0)
        }
    }

    private func reply(_ reply: AcquireReply) -> RedisReply {
        switch reply {
        case .granted(let fence, let group): granted(1, fence, group)
        case .extended(let fence, let group): granted(2, fence, group)
        case .held(let ttl, let place): .array([.integer(0), .integer(ttl), .integer(place)])
        case .heldOtherwise(let places): .array([.integer(3), .integer(places)])
        }
    }

    private func granted(_ kind: Int64, _ fence: Int64, _ group: String?) -> RedisReply {
        .array([.integer(kind), .integer(fence)] + (group.map { [.bulk(Array($0.utf8))] } ?? []))
    }
}

extension LockCall.AcquireCall {
    func reply(of model: inout ModelRedis, _ keys: ModelLockKeys) -> AcquireReply {
        let places: Int64
        switch mode {
        case .exclusive: return model.acquire(keys, token: token, ttl: ttl, onlyOwner: onlyOwner, ticket: ticket)
        case .shared: places = 0
        case .permits(let count): places = Int64(count)
        }
        return model.share(
            keys, token: token, ttl: ttl, onlyOwner: onlyOwner, ticket: ticket, places: places, group: group)
    }
}
