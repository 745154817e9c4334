internal import Hiredis
internal import InterlockCore
internal import InterlockJudge

/// A command of the RESP door, as a run sends it.
enum DoorCommand: RedisCommand {
    /// Times in milliseconds.
    case acquire(lock: String, ttl: Int64, wait: Int64, mode: LeaseMode)
    case renew(lock: String, token: String, ttl: Int64)
    case release(lock: String, token: String)
    case take(service: String, cost: Int64, subject: String?, wait: Int64)
    case permit(service: String, wait: Int64)
    case report(service: String, permit: String, isOK: Bool)

    func encode(into encoder: inout CommandEncoder) {
        switch self {
        case .acquire(let lock, let ttl, let wait, let mode):
            encoder.append("LOCK.ACQUIRE")
            encoder.append(lock)
            encoder.append(ttl)
            append(wait: wait, to: &encoder)
            switch mode {
            case .exclusive: break
            case .shared: encoder.append("SHARED")
            case .permits(let places):
                encoder.append("PERMITS")
                encoder.append(places)
            }
        case .renew(let lock, let token, let ttl):
            encoder.append("LOCK.RENEW")
            encoder.append(lock)
            encoder.append(token)
            encoder.append(ttl)
        case .release(let lock, let token):
            encoder.append("LOCK.RELEASE")
            encoder.append(lock)
            encoder.append(token)
        case .take(let service, let cost, let subject, let wait):
            encoder.append("LIMIT.TAKE")
            encoder.append(service)
            if cost != 1 {
                encoder.append("COST")
                encoder.append(cost)
            }
            if let subject {
                encoder.append("SUBJECT")
                encoder.append(subject)
            }
            append(wait: wait, to: &encoder)
        case .permit(let service, let wait):
            encoder.append("PERMIT.ACQUIRE")
            encoder.append(service)
            append(wait: wait, to: &encoder)
        case .report(let service, let permit, let isOK):
            encoder.append("PERMIT.REPORT")
            encoder.append(service)
            encoder.append(permit)
            encoder.append(isOK ? "OK" : "ERROR")
        }
    }

    private func append(wait: Int64, to encoder: inout CommandEncoder) {
        guard wait > 0 else { return }
        encoder.append("WAIT")
        encoder.append(wait)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> DoorAnswer {
        let answer: DoorAnswer? =
            switch self {
            case .acquire: DoorAnswer(lease: reply)
            case .renew: DoorAnswer(renewal: reply)
            case .release: DoorAnswer(release: reply)
            case .take: DoorAnswer(taken: reply)
            case .permit: DoorAnswer(permit: reply)
            case .report: DoorAnswer(reported: reply)
            }
        guard let answer else { throw reply.unexpected(for: "a sidecar's command") }
        return answer
    }
}

/// What a sidecar answered.
enum DoorAnswer {
    /// `validFor` in ms.
    case lease(token: String, fence: Int64, validFor: Int64)
    /// In ms.
    case renewed(validFor: Int64)
    case released
    /// Times in ms.
    case taken(limit: Int64, remaining: Int64, resetAfter: Int64)
    case permit(id: String, state: BreakerSnapshot.State)
    case reported(BreakerSnapshot.State)
    case refused(Refusal)
}

// Each reads the reply of one command; `nil`: that command has no such reply.
extension DoorAnswer {
    init?(lease reply: RedisReply) {
        if case .null = reply {
            self = .refused(.held)
            return
        }
        guard let parts = reply.array, parts.count == 3, let token = parts[0].text, let fence = parts[1].integer,
            let validFor = parts[2].integer
        else { return nil }
        self = .lease(token: token, fence: fence, validFor: validFor)
    }

    init?(renewal reply: RedisReply) {
        switch reply {
        case .null: self = .refused(.lost)
        case .integer(let validFor): self = .renewed(validFor: validFor)
        default: return nil
        }
    }

    init?(release reply: RedisReply) {
        guard case .integer(let count) = reply else { return nil }
        self = count == 1 ? .released : .refused(.lost)
    }

    init?(taken reply: RedisReply) {
        guard case .array(let parts) = reply, parts.count == 5, let isLimited = parts[0].integer, let limit = parts[1].integer,
            let remaining = parts[2].integer, let retryAfter = parts[3].integer, let resetAfter = parts[4].integer
        else { return nil }
        self =
            isLimited == 0
            ? .taken(limit: limit, remaining: remaining, resetAfter: resetAfter)
            : .refused(.limited(retryAfter: retryAfter))
    }

    init?(permit reply: RedisReply) {
        guard case .array(let parts) = reply, parts.count == 4, let isGranted = parts[0].integer, let word = parts[1].text,
            let state = parts[2].text.flatMap(BreakerSnapshot.State.init), let retryAfter = parts[3].integer
        else { return nil }
        self = isGranted == 1 ? .permit(id: word, state: state) : .refused(Refusal(reason: word, retryAfter: retryAfter))
    }

    init?(reported reply: RedisReply) {
        guard let state = reply.text.flatMap(BreakerSnapshot.State.init) else { return nil }
        self = .reported(state)
    }
}

extension Refusal {
    /// As the doors word it; `retryAfter` in ms.
    init(reason: String, retryAfter: Int64) {
        self =
            switch reason {
            case "limited": .limited(retryAfter: retryAfter)
            case "open": .open(retryAfter: retryAfter)
            case "busy": .busy(retryAfter: retryAfter)
            default: .other(reason)
            }
    }
}
