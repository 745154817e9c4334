/// Collects a peer's replies to the login, and decides whether the peer is a Redis server that can serve a coordinator.
/// A pure value type.
///
/// `PING` alone is not enough: a Sentinel, a sidecar's RESP API and a server without scripting answer it like Redis.
struct PeerCheck {
    /// The oldest version of Redis with every command that the scripts use.
    private static let minimumVersion = (major: 6, minor: 2)

    /// The reply to `HELLO`, which any user may send; empty if the peer does not support it.
    var hello: [String: String] = [:]
    /// The fields of `INFO server`; empty if this user may not run it, or it was not requested.
    var info: [String: String] = [:]
    /// The error of the minimal script; `nil` if it ran.
    var scriptFailure: RedisError?
    /// Whether a replica is rejected. It is not if the login checks the role with `ROLE`, nor in a cluster, where a
    /// replica redirects each command to the primary of its key.
    var refusesReplicas = true

    var runID: String? { info["run_id"] }

    /// Returns the error for a peer that is not a Redis server; `nil` if it may be one.
    /// - Parameter address: the address of the peer, for the message.
    func identityFailure(at address: String) -> RedisError? {
        if hello["server"] == "interlock" {
            return RedisError(
                .connectionFailed,
                "\(address) is the RESP API of an Interlock sidecar, not a Redis server: use the Redis that the sidecars share")
        }
        if [hello["mode"], info["redis_mode"]].contains("sentinel") {
            return RedisError(
                .connectionFailed,
                "\(address) is a Sentinel, not a Redis server: use redis+sentinel://HOST:PORT/NAME, "
                    + "or set redis.sentinels and redis.primary")
        }
        return nil
    }

    /// Returns the reason that the server cannot serve; `nil` if it can.
    /// - Parameter address: the address of the server, for the message.
    func failure(at address: String) -> RedisError? {
        if let version = tooOldVersion {
            return RedisError(
                .connectionFailed, "\(address) is Redis \(version): expected Redis 6.2 or Valkey 7.2, or newer")
        }
        if refusesReplicas, hello["role"] == "replica" {
            return RedisError(
                .server(.readOnly), "\(address) is a replica, which accepts no writes: use its primary, Sentinels or the cluster")
        }
        guard let scriptFailure else { return nil }
        switch scriptFailure.code {
        case .server(.noPermission):
            return RedisError(
                scriptFailure.code,
                "\(address) does not let this user run scripts (\(scriptFailure.message)): allow +eval and +evalsha")
        // A server that redirects the command supports it.
        case .server(let condition) where condition.isRedirection: return nil
        case .server(let condition) where condition.isUnavailability:
            return RedisError(scriptFailure.code, "\(address) refused the login: \(scriptFailure.message)")
        case .server, .unexpectedReply:
            return RedisError(
                .connectionFailed,
                "\(address) cannot run scripts (\(scriptFailure.message)): Interlock needs EVAL and EVALSHA under their own names"
            )
        case .notConnected, .overloaded, .timedOut, .replyLost, .protocolViolation, .connectionFailed:
            return RedisError(scriptFailure.code, "\(address) refused the login: \(scriptFailure.message)")
        }
    }

    /// The version of the server if it is too old; `nil` if it is new enough or unknown.
    private var tooOldVersion: String? {
        guard info["valkey_version"] == nil, let version = info["redis_version"] ?? hello["version"] else { return nil }
        let numbers = version.split(separator: ".").map { Int($0) }
        guard numbers.count >= 2, let major = numbers[0], let minor = numbers[1] else { return nil }
        return (major, minor) < (Self.minimumVersion.major, Self.minimumVersion.minor) ? version : nil
    }
}
