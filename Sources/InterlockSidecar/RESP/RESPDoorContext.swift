package import Interlock
package import Logging
package import NIOCore

/// What the connections of a RESP door share. Confined to the coordinator's event loop.
package final class RESPDoorContext {
    let access: AccessControl
    let logger: Logger
    let flushes: RESPFlushes
    let commands: RESPCommands
    /// After this time without reading a single byte of its replies a client is dropped.
    let stallTimeout: TimeAmount
    private let maximumConnections: Int
    private var connections: [Int64: RESPConnection] = [:]
    private var lastConnectionID: Int64 = 0

    package init(
        coordinator: Coordinator, access: AccessControl, maximumConnections: Int, stallTimeout: TimeAmount, logger: Logger
    ) {
        self.access = access
        self.logger = logger
        self.maximumConnections = maximumConnections
        self.stallTimeout = stallTimeout
        flushes = RESPFlushes(eventLoop: coordinator.eventLoop)
        commands = RESPCommands(coordinator: coordinator)
    }

    var connectionCount: Int { connections.count }

    /// Serves a connection that was accepted, or tells it that there are too many.
    /// - Parameter secure: adds what stands between the bytes and their meaning.
    package func accept(_ channel: any Channel, secure: () throws -> Void = {}) throws {
        guard connections.count < maximumConnections else {
            let refusal = ByteBuffer(string: "-ERR max number of clients reached\r\n")
            channel.writeAndFlush(refusal).whenComplete { _ in channel.close(promise: nil) }
            return
        }
        try secure()
        try channel.pipeline.syncOperations.addHandler(RESPConnection(door: self))
    }

    func nextConnectionID() -> Int64 {
        lastConnectionID += 1
        return lastConnectionID
    }

    func connected(_ connection: RESPConnection) {
        connections[connection.session.id] = connection
    }

    func disconnected(_ connection: RESPConnection) {
        connections[connection.session.id] = nil
    }

    func cancel(_ call: PendingCall) {
        commands.calls.cancel(call)
    }

    /// The client of a lease has left, or this side has closed its connection.
    func unfollow(_ follower: LeaseFollower, releasing: Bool) {
        if releasing { commands.calls.releaseFollowedLease(follower) } else { commands.calls.unfollowLease(follower) }
    }

    func unfollow(_ follower: UInt64) {
        commands.calls.unfollow(follower)
    }

    /// Every connection answers what it has and closes.
    package func closeAll() {
        for (_, connection) in connections.sorted(by: { $0.key < $1.key }) { connection.closeAfterReplies(endedHere: true) }
    }
}
