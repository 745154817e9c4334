/// The reason that a command has no reply, or the error with which Redis replied.
package struct RedisError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error, on which programs switch.
    package enum Code: Hashable, Sendable {
        /// No connection exists, and the command was not sent.
        case notConnected
        /// The limit of commands in flight is reached, and the command was not sent.
        case overloaded
        /// The command was sent, and no reply arrived in time. Redis may have run it, or may still run it.
        case timedOut
        /// The command was sent, and the connection was lost before the reply. Redis may have run it.
        case replyLost
        /// The peer sent bytes that are not RESP2, or more than this client accepts.
        case protocolViolation
        /// Redis sent a reply that this command cannot have.
        case unexpectedReply
        /// The connection could not be established: it was refused, the address was not found, or TLS or the login
        /// failed.
        case connectionFailed
        /// Redis replied with an error.
        case server(ServerCondition)
    }

    package var code: Code
    /// A human-readable explanation.
    package var message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }

    /// The error for a peer that answers in HTTP.
    package static let httpPeer = RedisError(.protocolViolation, "the peer speaks HTTP, not RESP")
    /// The error for a peer that expects TLS.
    package static let tlsPeer = RedisError(.protocolViolation, "the peer speaks TLS")

    /// Whether the command may have run although its reply is not known.
    package var isOutcomeUnknown: Bool {
        switch code {
        case .timedOut, .replyLost: true
        case .notConnected, .overloaded, .protocolViolation, .unexpectedReply, .connectionFailed, .server: false
        }
    }

    /// Whether the command is known not to have run and may succeed when sent again later.
    package var isRetryable: Bool {
        switch code {
        case .notConnected: true
        case .server(let condition): condition.isRedirection
        default: false
        }
    }

    /// Whether the server reports that it is a replica, or is loading a data set like a new replica.
    package var isDemotion: Bool {
        guard case .server(let condition) = code else { return false }
        return condition == .readOnly || condition == .primaryDown || condition == .loading
    }

    /// Whether Redis is unreachable or cannot serve for now; the same command may succeed later.
    package var isUnavailability: Bool {
        switch code {
        case .notConnected, .overloaded, .timedOut, .replyLost, .connectionFailed, .protocolViolation: true
        case .server(let condition): condition.isUnavailability
        case .unexpectedReply: false
        }
    }

    /// Creates the error for an error reply, `CODE message`.
    init(reply: String) {
        self.init(.server(ServerCondition(ofReply: reply)), Self.withoutScript(reply))
    }

    /// Returns the reply without the digest and the line of the failed script, which Redis 7 appends and Redis 6.2
    /// prepends.
    private static func withoutScript(_ reply: String) -> String {
        if reply.hasPrefix("ERR Error running script ") {
            if let separator = reply.firstRange(of: ": -") { return String(reply[separator.upperBound...]) }
            let line = reply.ranges(of: "@user_script:").last.map { reply[$0.upperBound...] }
            return line?.firstRange(of: ": ").map { "ERR \(reply[$0.upperBound...])" } ?? reply
        }
        guard let location = reply.firstRange(of: " script: "), reply[location.upperBound...].contains(", on @") else {
            return reply
        }
        return String(reply[..<location.lowerBound])
    }
}

/// The first word of an error reply.
package struct ServerCondition: RawRepresentable, Hashable, Sendable {
    package let rawValue: String

    package init(rawValue: String) {
        self.rawValue = rawValue
    }

    /// Determines the condition of an error reply. For a failed script it is the condition of the error inside: Redis
    /// 6.2 wraps that error, as in `ERR Error running script … -READONLY …`, and versions up to 7.2 report `ERR`
    /// instead of `NOPERM` for a command that the user may not run in a script.
    init(ofReply reply: String) {
        let word = reply.prefix { $0 != " " }
        self.init(rawValue: String(word))
        // The server became a replica before or while it ran the command.
        if self == Self.unblocked || reply.hasPrefix("ERR WAIT cannot be used with replica instances") { self = .readOnly }
        guard self == .error else { return }
        if reply.hasPrefix("ERR The user executing the script can't ") || reply.hasPrefix("ERR ACL failure in script: ") {
            self = .noPermission
        } else if reply.hasPrefix("ERR Error running script "), let location = reply.firstRange(of: "@user_script:") {
            let inner = reply[location.upperBound...]
            if let separator = inner.firstRange(of: ": -") {
                self.init(rawValue: String(inner[separator.upperBound...].prefix { $0 != " " }))
            } else if inner.contains("The user executing the script can't ") {
                self = .noPermission
            }
        }
    }

    /// Redis is reading its data set into memory.
    package static let loading = ServerCondition(rawValue: "LOADING")
    /// The server is a replica and takes no writes.
    package static let readOnly = ServerCondition(rawValue: "READONLY")
    /// `maxmemory` is reached and nothing may be evicted.
    package static let outOfMemory = ServerCondition(rawValue: "OOM")
    /// Redis cannot persist to disk and refuses writes.
    package static let misconfigured = ServerCondition(rawValue: "MISCONF")
    /// A script has run for longer than `lua-time-limit`.
    package static let busy = ServerCondition(rawValue: "BUSY")
    /// The replica's link to its primary is down.
    package static let primaryDown = ServerCondition(rawValue: "MASTERDOWN")
    /// Fewer replicas are connected than `min-replicas-to-write`.
    package static let tooFewReplicas = ServerCondition(rawValue: "NOREPLICAS")
    /// No server of the cluster serves the hash slot.
    package static let clusterDown = ServerCondition(rawValue: "CLUSTERDOWN")
    /// The key belongs to another server of the cluster.
    package static let moved = ServerCondition(rawValue: "MOVED")
    /// The hash slot is migrating, and the key is at another server of the cluster.
    package static let ask = ServerCondition(rawValue: "ASK")
    /// The hash slot is migrating, and only some of the keys are at the other server.
    package static let tryAgain = ServerCondition(rawValue: "TRYAGAIN")
    /// The script is not in the server's cache.
    package static let noScript = ServerCondition(rawValue: "NOSCRIPT")
    /// The connection must log in first.
    package static let noAuthentication = ServerCondition(rawValue: "NOAUTH")
    /// The user name or the password is wrong.
    package static let wrongPassword = ServerCondition(rawValue: "WRONGPASS")
    /// The user may not run this command or access this key.
    package static let noPermission = ServerCondition(rawValue: "NOPERM")
    /// The key holds another type.
    package static let wrongType = ServerCondition(rawValue: "WRONGTYPE")
    /// The server became a replica while a command was blocked there.
    private static let unblocked = ServerCondition(rawValue: "UNBLOCKED")
    /// Any other error.
    package static let error = ServerCondition(rawValue: "ERR")

    /// Whether a cluster refused the command because another server must run it, or because no server can run it yet.
    package var isRedirection: Bool { self == .moved || self == .ask || self == .tryAgain || self == .clusterDown }

    /// Whether Redis cannot serve for now, independently of the command's arguments.
    package var isUnavailability: Bool {
        switch self {
        case .loading, .readOnly, .outOfMemory, .misconfigured, .busy, .primaryDown, .tooFewReplicas, .clusterDown, .moved, .ask,
            .tryAgain, .noAuthentication, .wrongPassword, .noPermission:
            true
        default: false
        }
    }
}
