internal import DequeModule
internal import Interlock
package import Logging
package import NIOCore
internal import SidecarSettings

/// The common state of the RESP API's connections. Confined to the coordinator's event loop.
package final class RESPListenerContext: ListenerContext {
    let access: AccessControl
    let logger: Logger
    let flushes: FlushQueue
    let scheduler: SliceScheduler
    let commands: RESPCommands
    let errors = RESPErrorCounters()
    /// How long a client may read nothing of its replies before it is disconnected.
    let stallTimeout: TimeAmount
    /// The time limit for a client to complete the TLS handshake and show its API key.
    let loginTimeout: TimeAmount
    private let refusedLogins: RefusedClients
    private let maximumConnections: Int
    /// The number of connections from the Unix socket that are accepted beyond the maximum.
    private static let localReserve = 16
    /// The maximum number of a departed client's leases that are handled between two reads of the clock.
    private static let maximumUnfollowedAtOnce = 16
    private static let unfollowPause = TimeAmount.microseconds(500)
    /// The leases of departed clients that are still followed, and whether each is to be released.
    private var orphans: Deque<(follower: LeaseFollower, isReleased: Bool)> = []
    /// The slices for the leases of departed clients, scheduled like those of an API key. No API key has this name.
    private let orphanSlices: ConnectionSlices
    private var isShuttingDown = false
    private var connections: [Int64: RESPConnection] = [:]
    /// Connections without a finished TLS handshake, or without a key.
    private var newcomers: UnidentifiedConnections<RESPConnection>
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
        newcomers = UnidentifiedConnections(limit: isTLS ? UnidentifiedConnections<RESPConnection>.maximumWithTLS : nil)
        flushes = FlushQueue(eventLoop: scheduler.eventLoop)
        self.scheduler = scheduler
        orphanSlices = ConnectionSlices(scheduler)
        orphanSlices.clientKey = "\0orphans"
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
        if newcomers.isOverLimit { makeRoom() }
    }

    func makeRoom() {
        guard let connection = newcomers.makeRoom(now: scheduler.eventLoop.uptime) else { return }
        disconnected(connection)
        connection.evict()
    }

    /// Records that a connection needs a handshake or a key before anything else.
    func addNewcomer(_ connection: RESPConnection) { newcomers.add(connection, now: scheduler.eventLoop.uptime) }

    /// Records that the client of this connection is known.
    func admitted(_ connection: RESPConnection) { newcomers.remove(connection) }

    func checkCallers() {
        for (_, connection) in connections.sorted(by: { $0.key < $1.key }) {
            guard let caller = connection.session.caller else { continue }
            connection.session.caller = access.current(caller)
            if connection.session.caller == nil { connection.revoke() }
        }
    }

    /// Records that the client sent an unknown key.
    func refusedLogin(of connection: RESPConnection) {
        refusedLogins.refused(from: connection.remoteAddress)
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
        newcomers.remove(connection)
    }

    func cancel(_ call: PendingCall) {
        commands.calls.cancel(call)
    }

    /// Stops following a lease, and releases it if `releasing` is `true`.
    func unfollow(_ follower: LeaseFollower, releasing: Bool) {
        if releasing { commands.calls.releaseFollowedLease(follower) } else { commands.calls.unfollowLease(follower) }
    }

    /// Stops following the leases of a departed client. There may be ten thousand, so this runs in slices, and slowly
    /// while Redis is busy.
    /// - Parameter leases: the leases, and whether each is released.
    func unfollow(_ leases: [(follower: LeaseFollower, isReleased: Bool)]) {
        let isInProgress = !orphans.isEmpty
        // The few leases of one client do not wait behind the many of another.
        let isSmall = leases.count <= Self.maximumUnfollowedAtOnce
        if isSmall { orphans.prepend(contentsOf: leases) } else { orphans.append(contentsOf: leases) }
        if isShuttingDown || isSmall && !isInProgress {
            unfollowOrphans(orphans.count)
        } else if !isInProgress {
            orphanSlices.later { [self] in unfollowMore() }
        }
    }

    private func unfollowOrphans(_ count: Int) {
        for lease in orphans.prefix(count) { unfollow(lease.follower, releasing: lease.isReleased) }
        orphans.removeFirst(min(count, orphans.count))
    }

    private func unfollowMore() {
        repeat {
            unfollowOrphans(Self.maximumUnfollowedAtOnce)
            guard !orphans.isEmpty else { return }
        } while !commands.calls.isRedisBusy && orphanSlices.mayContinue
        guard commands.calls.isRedisBusy else { return orphanSlices.later { [self] in unfollowMore() } }
        scheduler.eventLoop.assumeIsolated().scheduleTask(in: Self.unfollowPause) { [self] in
            orphanSlices.later { [self] in unfollowMore() }
        }
    }

    func unfollow(_ follower: UInt64) {
        commands.calls.unfollow(follower)
    }

    package func shutDown() {
        isShuttingDown = true
        unfollowOrphans(orphans.count)
        for (_, connection) in connections.sorted(by: { $0.key < $1.key }) { connection.closeAfterReplies(endedBy: .sidecar) }
    }
}

/// The state of a RESP client's session: its name, rights and options.
struct RESPSession {
    let id: Int64
    /// The caller; `nil` until the client shows a required key.
    var caller: AccessControl.Caller?
    /// The name that the client has given itself.
    var name = ""
    /// Whether the client has begun a transaction, which is rejected: no command runs before its `EXEC`.
    var isInRefusedTransaction = false
    /// Whether TLS is not required, or its handshake is complete.
    var isSecured: Bool
    /// Whether the client is notified of every lost lease, and not only of linked ones (`CLIENT LOSSES ON`).
    var receivesLosses = false
    /// The client's subscription to the events, if any.
    var follower: UInt64?
}
