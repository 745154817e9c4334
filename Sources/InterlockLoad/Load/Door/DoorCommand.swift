internal import InterlockJudge
internal import Hiredis

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
