internal import NIOCore

/// The connections of one client to one server. When one of them finds that the address leads to another server, or
/// that its server is no longer a primary, the others reconnect too. Confined to its event loop.
///
/// `ServerAgreement` decides; this type acts.
final class ServerGroup {
    private struct Member {
        let number: ServerAgreement.Member
        weak var connection: (any RedisDirectoryFollower)?
    }

    private let environment: RedisEnvironment
    private var members: [Member] = []
    private var lastNumber = 0
    private var agreement = ServerAgreement()
    private var nextLogAt = NIODeadline.uptimeNanoseconds(0)

    init(environment: RedisEnvironment) {
        self.environment = environment
    }

    var isEmpty: Bool { members.allSatisfy { $0.connection == nil } }
    /// Whether every connection is up, not started yet, or closed.
    var isUpOrIdle: Bool { members.allSatisfy { $0.connection?.isUpOrIdle ?? true } }

    func add(_ follower: any RedisDirectoryFollower) {
        lastNumber += 1
        members.append(Member(number: lastNumber, connection: follower))
    }

    func remove(_ follower: any RedisDirectoryFollower) {
        guard let number = number(of: follower) else { return }
        agreement.removed(number)
        members.removeAll { $0.number == number || $0.connection == nil }
    }

    /// Calls `message` with each connection.
    func notify(_ message: (any RedisDirectoryFollower) -> Void) {
        members.removeAll { $0.connection == nil }
        for member in members { member.connection.map(message) }
    }

    func reached(_ follower: any RedisDirectoryFollower, _ dialedServer: DialedServer) {
        guard let number = number(of: follower) else { return }
        let didIgnoreRunIDs = agreement.ignoresRunIDs
        let leaving = agreement.reached(
            number, runID: dialedServer.runID, dialedAt: dialedServer.dialedAt, areOthersUp: isUpOrIdle)
        if agreement.ignoresRunIDs, !didIgnoreRunIDs { logSeveralServers(dialedServer) }
        reconnect(
            leaving, because: RedisError(.replyLost, "\(dialedServer.name) now leads to another server"), dialedServer.name)
    }

    func lost(_ follower: any RedisDirectoryFollower, because error: RedisError, at dialedServer: DialedServer) {
        guard let number = number(of: follower) else { return }
        let leaving = agreement.lost(number, isDemoted: error.isDemotion, runID: dialedServer.runID)
        reconnect(
            leaving, because: RedisError(.replyLost, "\(dialedServer.name) can no longer serve: \(error.message)"),
            dialedServer.name)
    }

    private func number(of follower: any RedisDirectoryFollower) -> ServerAgreement.Member? {
        members.first { $0.connection === follower }?.number
    }

    private func reconnect(_ leaving: [ServerAgreement.Member], because reason: RedisError, _ name: String) {
        guard !leaving.isEmpty else { return }
        environment.logger.log(
            .moved, ["redis": name, "reason": reason.message, "connections": "\(leaving.count)"])
        for member in members where leaving.contains(member.number) { member.connection?.reconnect(because: reason) }
    }

    private func logSeveralServers(_ dialedServer: DialedServer) {
        let now = environment.eventLoop.now
        guard now >= nextLogAt else { return }
        nextLogAt = now + .minutes(1)
        environment.logger.log(.severalServers, ["redis": dialedServer.name])
    }
}
