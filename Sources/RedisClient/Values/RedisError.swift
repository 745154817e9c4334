/// Why a command has no reply, or which error Redis replied with.
package struct RedisError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What happened; a program switches on this.
    package enum Code: Hashable, Sendable {
        /// There is no connection: the command was never sent.
        case notConnected
        /// So many commands are already awaiting replies that this one was refused; it was never sent.
        case overloaded
        /// The command was sent, and no reply came in time. Redis may have carried it out, or may yet.
        case timedOut
        /// The command was sent, and the connection was lost before its reply. Redis may have carried it out.
        case answerLost
        /// The peer sent bytes that are no RESP2, or more than this client accepts.
        case protocolViolation
        /// Redis replied, but not in the shape that this command's replies have.
        case unexpectedReply
        /// The connection could not be established: refused, not found, TLS or login failed.
        case connectionFailed
        /// Redis replied with an error.
        case server(ServerCondition)
    }

    package var code: Code
    /// For people: what was asked, what was wrong.
    package var message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }

    /// The peer answers in HTTP.
    package static let httpPeer = RedisError(.protocolViolation, "the peer speaks HTTP, not RESP")
    /// The peer waits for TLS.
    package static let tlsPeer = RedisError(.protocolViolation, "the peer speaks TLS")

    /// The command may have been carried out although its reply is not known.
    package var isOutcomeUnknown: Bool {
        switch code {
        case .timedOut, .answerLost: true
        case .notConnected, .overloaded, .protocolViolation, .unexpectedReply, .connectionFailed, .server: false
        }
    }

    /// The command was not run for certain, and may be run later.
    package var isPostponement: Bool {
        switch code {
        case .notConnected: true
        case .server(let condition): condition.isRedirection
        default: false
        }
    }

    /// Whether the server says that it is a replica, or is loading a data set as a new replica does.
    package var isDemotion: Bool {
        guard case .server(let condition) = code else { return false }
        return condition == .readOnly || condition == .primaryDown || condition == .loading
    }

    /// Redis could not be reached or is not able to serve for now; the same command may succeed later.
    package var isUnavailability: Bool {
        switch code {
        case .notConnected, .overloaded, .timedOut, .answerLost, .connectionFailed, .protocolViolation: true
        case .server(let condition): condition.isUnavailability
        case .unexpectedReply: false
        }
    }

    /// An error reply, as Redis worded it: `CODE message`.
    init(reply: String) {
        self.init(.server(ServerCondition(ofReply: reply)), Self.withoutScript(reply))
    }

    /// Returns the reply without the digest and the line of the failed script, which Redis 7 appends and Redis 6.2
    /// prepends.
    private static func withoutScript(_ reply: String) -> String {
        if reply.hasPrefix("ERR Error running script ") {
            if let mark = reply.firstRange(of: ": -") { return String(reply[mark.upperBound...]) }
            let line = reply.ranges(of: "@user_script:").last.map { reply[$0.upperBound...] }
            return line?.firstRange(of: ": ").map { "ERR \(reply[$0.upperBound...])" } ?? reply
        }
        guard let place = reply.firstRange(of: " script: "), reply[place.upperBound...].contains(", on @") else { return reply }
        return String(reply[..<place.lowerBound])
    }
}

/// The first word of an error that Redis replied with.
package struct ServerCondition: RawRepresentable, Hashable, Sendable {
    package let rawValue: String

    package init(rawValue: String) {
        self.rawValue = rawValue
    }

    /// Of an error reply. What a script was refused is what it is about: Redis 6.2 wraps the error, `ERR Error running script …
    /// -READONLY …`, and none up to 7.2 names what the user's rights do not allow a script.
    init(ofReply reply: String) {
        let word = reply.prefix { $0 != " " }
        self.init(rawValue: String(word))
        // It was a primary when it was asked, or before it had answered.
        if self == Self.unblocked || reply.hasPrefix("ERR WAIT cannot be used with replica instances") { self = .readOnly }
        guard self == .error else { return }
        if reply.hasPrefix("ERR The user executing the script can't ") || reply.hasPrefix("ERR ACL failure in script: ") {
            self = .noPermission
        } else if reply.hasPrefix("ERR Error running script "), let place = reply.firstRange(of: "@user_script:") {
            let inner = reply[place.upperBound...]
            if let mark = inner.firstRange(of: ": -") {
                self.init(rawValue: String(inner[mark.upperBound...].prefix { $0 != " " }))
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
    /// A script runs for longer than `lua-time-limit`.
    package static let busy = ServerCondition(rawValue: "BUSY")
    /// The replica's link to its primary is down.
    package static let primaryDown = ServerCondition(rawValue: "MASTERDOWN")
    /// Fewer replicas are connected than `min-replicas-to-write`.
    package static let tooFewReplicas = ServerCondition(rawValue: "NOREPLICAS")
    /// The cluster does not serve this slot.
    package static let clusterDown = ServerCondition(rawValue: "CLUSTERDOWN")
    /// The key belongs to another server of the cluster.
    package static let moved = ServerCondition(rawValue: "MOVED")
    /// The key is on its way to another server of the cluster.
    package static let ask = ServerCondition(rawValue: "ASK")
    /// Some of the keys are on their way to another server of the cluster.
    package static let tryAgain = ServerCondition(rawValue: "TRYAGAIN")
    /// The script is not in the server's cache.
    package static let noScript = ServerCondition(rawValue: "NOSCRIPT")
    /// The connection must log in first.
    package static let noAuthentication = ServerCondition(rawValue: "NOAUTH")
    /// User or password is wrong.
    package static let wrongPassword = ServerCondition(rawValue: "WRONGPASS")
    /// The user may not run this command or touch this key.
    package static let noPermission = ServerCondition(rawValue: "NOPERM")
    /// The key holds another type.
    package static let wrongType = ServerCondition(rawValue: "WRONGTYPE")
    /// The server has become a replica while a command waited there.
    private static let unblocked = ServerCondition(rawValue: "UNBLOCKED")
    /// Everything else.
    package static let error = ServerCondition(rawValue: "ERR")

    /// A cluster has not run the command, which belongs elsewhere or has to wait.
    package var isRedirection: Bool { self == .moved || self == .ask || self == .tryAgain || self == .clusterDown }

    /// Redis cannot serve for now, for a reason of its own.
    package var isUnavailability: Bool {
        switch self {
        case .loading, .readOnly, .outOfMemory, .misconfigured, .busy, .primaryDown, .tooFewReplicas, .clusterDown, .moved, .ask,
            .tryAgain, .noAuthentication, .wrongPassword, .noPermission:
            true
        default: false
        }
    }
}
