internal import NIOCore

/// The connections of one client to one server. When one of them finds that the address leads to another server, or
/// that its server is no longer a primary, the others reconnect too. Confined to its event loop.
///
/// `ServerAgreement` decides; this type acts.
final class ServerGroup {
    private struct Connection {
        let id: ServerAgreement.MemberID
        weak var follower: (any RedisDirectoryFollower)?
    }

    private let environment: RedisEnvironment
    private var connections: [Connection] = []
    private var lastID = 0
    private var agreement = ServerAgreement()
    private var nextLogAt = NIODeadline.uptimeNanoseconds(0)

    init(environment: RedisEnvironment) {
        self.environment = environment
    }

    var isEmpty: Bool { connections.allSatisfy { $0.follower == nil } }
    /// Whether every connection is up, not started yet, or closed.
    var isUpOrIdle: Bool { connections.allSatisfy { $0.follower?.isUpOrIdle ?? true } }

    func add(_ follower: any RedisDirectoryFollower) {
        lastID += 1
        connections.append(Connection(id: lastID, follower: follower))
    }

    func remove(_ follower: any RedisDirectoryFollower) {
        guard let id = id(of: follower) else { return }
        agreement.memberRemoved(id)
        connections.removeAll { $0.id == id || $0.follower == nil }
    }

    /// Calls `send` with each connection.
    func notify(_ send: (any RedisDirectoryFollower) -> Void) {
        connections.removeAll { $0.follower == nil }
        for connection in connections { connection.follower.map(send) }
    }

    func connectionEstablished(_ follower: any RedisDirectoryFollower, _ dialedServer: DialedServer) {
        guard let id = id(of: follower) else { return }
        let didIgnoreRunIDs = agreement.ignoresRunIDs
        let leavingIDs = agreement.connectionEstablished(
            id, runID: dialedServer.runID, dialedAt: dialedServer.dialedAt, areOthersUp: isUpOrIdle)
        if agreement.ignoresRunIDs, !didIgnoreRunIDs { logSeveralServers(dialedServer) }
        reconnect(
            leavingIDs, because: RedisError(.replyLost, "\(dialedServer.name) now points to a different server"),
            dialedServer.name)
    }

    func connectionLost(_ follower: any RedisDirectoryFollower, because error: RedisError, at dialedServer: DialedServer) {
        guard let id = id(of: follower) else { return }
        let leavingIDs = agreement.connectionLost(id, isDemoted: error.isDemotion, runID: dialedServer.runID)
        reconnect(
            leavingIDs, because: RedisError(.replyLost, "\(dialedServer.name) can no longer serve: \(error.message)"),
            dialedServer.name)
    }

    private func id(of follower: any RedisDirectoryFollower) -> ServerAgreement.MemberID? {
        connections.first { $0.follower === follower }?.id
    }

    private func reconnect(_ leavingIDs: [ServerAgreement.MemberID], because reason: RedisError, _ name: String) {
        guard !leavingIDs.isEmpty else { return }
        environment.logger.log(
            .moved, ["redis": name, "reason": reason.message, "connections": "\(leavingIDs.count)"])
        for connection in connections where leavingIDs.contains(connection.id) {
            connection.follower?.reconnect(because: reason)
        }
    }

    private func logSeveralServers(_ dialedServer: DialedServer) {
        let now = environment.eventLoop.now
        guard now >= nextLogAt else { return }
        nextLogAt = now + .minutes(1)
        environment.logger.log(.severalServers, ["redis": dialedServer.name])
    }
}
