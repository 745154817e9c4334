internal import InterlockCore
internal import RedisClient

/// Acquires a lock on one server of a quorum. See `quorum-acquire.lua`.
struct QuorumAcquireScript: ScriptCommand {
    /// Whether any caller may acquire the lock, or only its current owner.
    enum Candidate: String {
        case anyCaller = "take"
        case currentOwner = "own"
    }

    let script: RedisScript
    var keys: KeySpace
    var name: String
    var token: String
    var ttlMilliseconds: Int64
    var candidate: Candidate

    var keyCount: Int { 2 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        keys.encodeLockAndFence(of: name, into: &encoder)
        encoder.append(token)
        encoder.append(ttlMilliseconds)
        encoder.append(candidate.rawValue)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> QuorumRound.Vote {
        guard let parts = reply.array, parts.count >= 2, let kind = parts[0].integer, let value = parts[1].integer else {
            throw reply.unexpected(for: "quorum-acquire.lua")
        }
        switch kind {
        case 1: return .granted(fence: value)
        case 2: return .renewed(fence: value)
        default: return .held(isRecorded: parts.count < 3 || parts[2].integer != 0)
        }
    }
}

/// Stores the fence of a grant on one server of a quorum. See `quorum-fence.lua`.
struct QuorumFenceScript: ScriptCommand {
    let script: RedisScript
    var keys: KeySpace
    var name: String
    var token: String
    var fence: Int64
    var ttlMilliseconds: Int64
    /// The number that the server returned to the acquire or the renewal; 0 if it had none.
    var foundNumber: Int64
    /// The restore of a missing lease; `nil` to record only the fence.
    var restore: QuorumRenewal.Restore?

    /// The state of the lease on the server after the script.
    enum Outcome: Equatable {
        /// The server has the lease, under this number.
        case recorded(Int64)
        /// Another attempt holds the lock, perhaps only for a moment.
        case occupied
        case missing
    }

    var keyCount: Int { 2 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        keys.encodeLockAndFence(of: name, into: &encoder)
        encoder.append(token)
        encoder.append(fence)
        encoder.append(ttlMilliseconds)
        encoder.append(foundNumber)
        guard let restore else { return }
        encoder.append(restore.found.timeMilliseconds)
        encoder.append(restore.windowMilliseconds)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Outcome {
        switch try reply.integer(for: script.name) {
        case ..<0: .occupied
        case 0: .missing
        case let number: .recorded(number)
        }
    }
}

/// Releases a lock on one server of a quorum. See `quorum-release.lua`.
struct QuorumReleaseScript: ScriptCommand {
    typealias Reply = Bool

    static let source = RedisScript(library: "quorum-release")

    var keys: KeySpace
    var name: String
    var token: String
    /// The only kind of hold to release; `nil` for any kind.
    var only: Hold?

    enum Hold {
        /// A hold that no lease can rely on.
        case unrecorded
        /// The hold under this recorded fence.
        case recorded(fence: Int64)
    }

    var script: RedisScript { Self.source }
    var keyCount: Int { 2 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        keys.encodeLockAndFence(of: name, into: &encoder)
        encoder.append(token)
        switch only {
        case .unrecorded?: encoder.append("unrecorded")
        case .recorded(let fence)?: encoder.append(fence)
        case nil: break
        }
    }
}

/// Renews a lease on one server of a quorum. See `quorum-renew.lua`.
struct QuorumRenewScript: ScriptCommand {
    let script: RedisScript
    var keys: KeySpace
    var name: String
    var token: String
    var ttlMilliseconds: Int64
    /// The fence of the only lease to renew; `nil` for the token's current lease.
    var fence: Int64?

    var keyCount: Int { 2 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        keys.encodeLockAndFence(of: name, into: &encoder)
        encoder.append(token)
        encoder.append(ttlMilliseconds)
        if let fence { encoder.append(fence) }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> QuorumRenewal.Vote {
        guard let parts = reply.array, parts.count == 3, let isRenewed = parts[0].integer, let number = parts[1].integer,
            let time = parts[2].integer
        else { throw reply.unexpected(for: "quorum-renew.lua") }
        let found = QuorumRenewal.Observation(number: number, timeMilliseconds: time)
        return isRenewed == 1 ? .renewed(found) : .missing(found)
    }
}

/// Breaks a lock on one server of a quorum. See `quorum-break.lua`. The reply is the server's time as Unix time in
/// milliseconds; 0 if there is no lease.
struct QuorumBreakScript: ScriptCommand {
    typealias Reply = Int64

    static let source = RedisScript(library: "quorum-break")

    var keys: KeySpace
    var name: String
    /// The token of the holder; `nil` for any holder.
    var token: String?

    var script: RedisScript { Self.source }
    var keyCount: Int { 1 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(keys.lock(name))
        encoder.append(token ?? "")
    }
}

/// Reads the state of a lock on one server of a quorum. See `quorum-inspect.lua`.
struct QuorumInspectScript: ScriptCommand {
    struct Reply {
        var token: String?
        /// The remaining time in milliseconds; -1 if the lock never expires, -2 if it has no holder.
        var ttlMilliseconds: Int64
        /// The number of the last grant on this server; `nil` if the server has no number.
        var number: Int64?
    }

    static let source = RedisScript(library: "quorum-inspect")

    var keys: KeySpace
    var name: String

    var script: RedisScript { Self.source }
    var keyCount: Int { 2 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        keys.encodeLockAndFence(of: name, into: &encoder)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        guard let parts = reply.array, parts.count == 3, let ttlMilliseconds = parts[1].integer else {
            throw reply.unexpected(for: "quorum-inspect.lua")
        }
        return Reply(token: parts[0].text, ttlMilliseconds: ttlMilliseconds, number: parts[2].integer)
    }
}

/// `PUBLISH channel message`. The reply is the number of receivers.
struct PublishMessage: NamedCommand {
    typealias Reply = Int64
    static let nameParts = ["PUBLISH"]

    var channel: String
    var message: String

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(channel)
        encoder.append(message)
    }
}

extension KeySpace {
    fileprivate func encodeLockAndFence(of name: String, into encoder: inout CommandEncoder) {
        encoder.append(lock(name))
        encoder.append(fence(name))
    }
}
