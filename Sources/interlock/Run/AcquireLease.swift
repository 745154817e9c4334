import Hiredis
import InterlockCore

/// `LOCK.ACQUIRE name ttl-ms WAIT ms OWNER token [LABEL text] [SHARED] [PERMITS n]`.
struct AcquireLease: SidecarCommand {
    /// The same for a lock that nobody else may have.
    var lock: AcquireLock
    var sharing: RunPlan.Sharing

    var wait: Duration { lock.wait }
    var purpose: String { lock.purpose }

    func encode(into encoder: inout CommandEncoder) {
        lock.encode(into: &encoder)
        switch sharing {
        case .exclusive:
            break
        case .shared:
            encoder.append("SHARED")
        case .permits(let count):
            encoder.append("PERMITS")
            encoder.append(count)
        }
    }

    /// `nil`: held by another.
    func decode(_ reply: RedisReply) throws(RedisError) -> LockGrant? {
        try lock.decode(reply)
    }
}
