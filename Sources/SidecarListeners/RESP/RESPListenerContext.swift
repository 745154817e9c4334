internal import DequeModule
internal import Interlock
package import Logging
package import NIOCore
internal import SidecarSettings

/// The state that the connections of the RESP listener share. Confined to the coordinator's event loop.
package final class RESPListenerContext: ListenerContext {
    let access: AccessControl
    let logger: Logger
    let flushes: FlushQueue
    let scheduler: SliceScheduler
    let commands: RESPCommands
    let errors = RESPErrorCounters()
    /// The time after which a client that does not read its replies is dropped.
    let stallTimeout: TimeAmount
    /// The time limit for a client to complete the TLS handshake and send its API key.
    let loginTimeout: TimeAmount
    private let refusedLogins: RefusedClients
    private let maximumConnections: Int
    /// The number of reserve slots: connections on the Unix socket beyond the maximum.
    private static let localReserve = 16
    /// The maximum number of departed clients' leases that are unfollowed between two reads of the clock.
    private static let maximumUnfollowedAtOnce = 16
    /// The pause between two such steps while Redis is busy.
    private static let unfollowPause = TimeAmount.microseconds(500)
    /// The leases of departed clients that are still followed, and whether each will be released.
    private var orphanedLeases: Deque<(follower: LeaseFollower, isReleased: Bool)> = []
    /// The slices for the leases of departed clients, scheduled like those of an API key. No API key has this name.
    private let orphanSlices: ConnectionSlices
    private var isShuttingDown = false
    private var connections: [Int64: RESPConnection] = [:]
    /// The connections without a complete TLS handshake, or without a required key.
    private var unidentified: UnidentifiedConnections<RESPConnection>
    private var lastConnectionID: Int64 = 0

    package init(
        commands: RESPCommands, access: AccessControl, maximumConnections: Int, stallTimeout: TimeAmount,
        loginTimeout: TimeAmount = .seconds(10), isTLS: Bool = false, scheduler: SliceScheduler, logger: Logger
    ) {
        self.commands = commands
        self.access = access
        self.logger = logger
        refusedLogins = RefusedClients(.unknownKey, at: .resp, logger: logger)
        self.maximumConnections = maximumConnections
        self.stallTimeout = stallTimeout
        self.loginTimeout = loginTimeout
        unidentified = UnidentifiedConnections(
            limit: isTLS ? UnidentifiedConnections<RESPConnection>.maximumWithTLS : nil)
        flushes = FlushQueue(eventLoop: scheduler.eventLoop)
        self.scheduler = scheduler
        orphanSlices = ConnectionSlices(scheduler)
        orphanSlices.clientName = "\0orphans"
    }

    var connectionCount: Int { connections.count }

    package func serve(_ channel: any Channel, _ origin: ConnectionOrigin = ConnectionOrigin()) throws {
        let capacity = maximumConnections + (origin.isLocal ? Self.localReserve : 0)
        if connections.count >= capacity { makeRoom() }
        guard connections.count < capacity else {
            let refusal = ByteBuffer(string: "-ERR max number of clients reached\r\n")
            channel.writeAndFlush(refusal).whenComplete { _ in channel.close(promise: nil) }
            return
        }
        let connection = RESPConnection(listener: self, isSecured: origin.handshake == nil)
        try origin.secure(channel, connection.slices)
        try channel.pipeline.syncOperations.addHandler(connection)
        if unidentified.isOverLimit { makeRoom() }
    }

    func makeRoom() {
        guard let connection = unidentified.makeRoom(nowNanoseconds: scheduler.eventLoop.uptimeNanoseconds) else {
            return
        }
        connectionClosed(connection)
        connection.evict()
    }

    /// Records that a connection needs a TLS handshake or a key first.
    func addUnidentified(_ connection: RESPConnection) {
        unidentified.add(connection, now: scheduler.eventLoop.uptimeNanoseconds)
    }

    /// Records that the client of this connection is identified.
    func clientAdmitted(_ connection: RESPConnection) { unidentified.remove(connection) }

    func checkCallers() {
        for (_, connection) in connections.sorted(by: { $0.key < $1.key }) {
            guard let caller = connection.session.caller else { continue }
            connection.session.caller = access.current(caller)
            if connection.session.caller == nil { connection.revoke() }
        }
    }

    /// Counts the login of a client that sent an unknown key.
    func recordRefusedLogin(of connection: RESPConnection) {
        refusedLogins.record(from: connection.remoteAddress)
    }

    func nextConnectionID() -> Int64 {
        lastConnectionID += 1
        return lastConnectionID
    }

    func connectionOpened(_ connection: RESPConnection) {
        connections[connection.session.id] = connection
    }

    func connectionClosed(_ connection: RESPConnection) {
        connections[connection.session.id] = nil
        unidentified.remove(connection)
    }

    func cancel(_ call: PendingCall) {
        commands.coordinator.cancel(call)
    }

    /// Stops following a lease, and releases it if `releasing` is `true`.
    func unfollow(_ follower: LeaseFollower, releasing: Bool) {
        if releasing { commands.coordinator.releaseFollowedLease(follower) } else { commands.coordinator.unfollowLease(follower) }
    }

    /// Stops following the leases of a departed client. There may be ten thousand, so this runs in slices, and slowly
    /// while Redis is busy.
    /// - Parameter leases: the leases, and whether to release each.
    func unfollow(_ leases: [(follower: LeaseFollower, isReleased: Bool)]) {
        let isUnfollowing = !orphanedLeases.isEmpty
        // A client's few leases do not wait behind the many of another client.
        let isSmall = leases.count <= Self.maximumUnfollowedAtOnce
        if isSmall { orphanedLeases.prepend(contentsOf: leases) } else { orphanedLeases.append(contentsOf: leases) }
        if isShuttingDown || isSmall && !isUnfollowing {
            unfollowOrphans(orphanedLeases.count)
        } else if !isUnfollowing {
            orphanSlices.later { [self] in unfollowInSlice() }
        }
    }

    /// Unfollows the first `count` leases of departed clients.
    private func unfollowOrphans(_ count: Int) {
        for lease in orphanedLeases.prefix(count) { unfollow(lease.follower, releasing: lease.isReleased) }
        orphanedLeases.removeFirst(min(count, orphanedLeases.count))
    }

    /// Unfollows leases in a slice, and continues in later slices.
    private func unfollowInSlice() {
        repeat {
            unfollowOrphans(Self.maximumUnfollowedAtOnce)
            guard !orphanedLeases.isEmpty else { return }
        } while !commands.coordinator.isRedisBusy && orphanSlices.mayContinue
        guard commands.coordinator.isRedisBusy else { return orphanSlices.later { [self] in unfollowInSlice() } }
        scheduler.eventLoop.assumeIsolated().scheduleTask(in: Self.unfollowPause) { [self] in
            orphanSlices.later { [self] in unfollowInSlice() }
        }
    }

    /// Ends a client's subscription to the events.
    func unfollow(_ followerID: UInt64) {
        commands.coordinator.unfollow(followerID)
    }

    package func shutDown() {
        isShuttingDown = true
        unfollowOrphans(orphanedLeases.count)
        for (_, connection) in connections.sorted(by: { $0.key < $1.key }) { connection.closeAfterReplies(endedBy: .sidecar) }
    }
}

/// The state of a RESP client's session: its name, rights and options.
struct RESPSession {
    let id: Int64
    /// The caller; `nil` until the client sends a required key.
    var caller: AccessControl.Caller?
    /// The name that the client has given itself.
    var name = ""
    /// Whether the client has begun a transaction, which is rejected: none of its commands runs.
    var isInRefusedTransaction = false
    /// Whether TLS is not required, or its handshake is complete.
    var isSecured: Bool
    /// Whether the client is notified of every lost lease, and not only of linked ones (`CLIENT LOSSES ON`).
    var receivesLosses = false
    /// The ID of the client's subscription to the events; `nil` if it has none.
    var followerID: UInt64?
}
