internal import Interlock
internal import Logging
package import NIOCore
internal import NIOHPACK
internal import SidecarSettings
internal import SidecarTelemetry

/// The state that the connections of a gRPC listener share. Confined to the coordinator's event loop.
package final class GRPCListenerContext: ListenerContext {
    /// The time limit for a client to finish the TLS handshake and make an accepted call.
    let firstRequestTimeout: TimeAmount
    /// The lifetime of a connection without calls. Clients reconnect when they need to.
    let idleTimeout = TimeAmount.minutes(10)
    /// The time for which a client may leave responses unread.
    let unreadTimeout = TimeAmount.minutes(1)

    let methods: [String: GRPCMethod]
    /// The method that unknown paths resolve to.
    let unknownMethod: GRPCMethod
    let flushes: FlushQueue
    private let scheduler: SliceScheduler
    private let access: AccessControl
    private let refusedLogins: RefusedClients
    private let maximumConnections: Int
    private var connections: [ObjectIdentifier: (number: Int, connection: GRPCConnection)] = [:]
    private var lastConnectionNumber = 0
    /// The connections without an accepted call.
    private var unidentified: UnidentifiedConnections<GRPCConnection>

    init(
        methods: [GRPCMethod], access: AccessControl, isTLS: Bool, maximumConnections: Int, firstRequestTimeout: TimeAmount,
        eventLoop: any EventLoop, metrics: PrometheusRegistry, scheduler: SliceScheduler, logger: Logger
    ) {
        self.methods = Dictionary(methods.map { ($0.path, $0) }, uniquingKeysWith: { $1 })
        unknownMethod = GRPCMethod("unknown", in: metrics) { call, _ in call.fail(.unimplemented, "unknown method") }
        self.access = access
        self.scheduler = scheduler
        self.maximumConnections = maximumConnections
        self.firstRequestTimeout = firstRequestTimeout
        unidentified = UnidentifiedConnections(
            limit: isTLS ? UnidentifiedConnections<GRPCConnection>.maximumWithTLS : nil)
        flushes = FlushQueue(eventLoop: eventLoop)
        refusedLogins = RefusedClients(.unknownKey, at: .grpc, logger: logger)
    }

    var now: NIODeadline { scheduler.eventLoop.now }

    var connectionCount: Int { connections.count }

    package func serve(_ channel: any Channel, _ origin: ConnectionOrigin = ConnectionOrigin()) throws {
        if connections.count >= maximumConnections { makeRoom() }
        guard connections.count < maximumConnections else { return channel.close(promise: nil) }
        PeerLiveness.watch(channel)
        let slices = ConnectionSlices(scheduler)
        try origin.secure(channel, slices)
        let connection = try GRPCConnection.begin(on: channel, listener: self, slices: slices)
        lastConnectionNumber += 1
        connections[ObjectIdentifier(connection)] = (lastConnectionNumber, connection)
        unidentified.add(connection, now: scheduler.eventLoop.uptimeNanoseconds)
        if unidentified.isOverLimit { makeRoom() }
    }

    func makeRoom() {
        guard let connection = unidentified.makeRoom(nowNanoseconds: scheduler.eventLoop.uptimeNanoseconds) else {
            return
        }
        connectionClosed(connection)
        connection.evict()
    }

    /// Records that a call of this connection was accepted.
    func clientAdmitted(_ connection: GRPCConnection) { unidentified.remove(connection) }

    func connectionClosed(_ connection: GRPCConnection) {
        connections[ObjectIdentifier(connection)] = nil
        unidentified.remove(connection)
    }

    /// Returns the caller that these fields identify; `nil` if they contain no valid key, and one is required.
    func caller(_ fields: HPACKHeaders, from address: @autoclosure () -> SocketAddress?) -> AccessControl.Caller? {
        if let anonymous = access.anonymous { return anonymous }
        let key = HTTPGate.key(apiKey: fields.first(name: "x-api-key"), authorization: fields.first(name: "authorization"))
        guard let key else { return nil }
        if let caller = access.caller(key: key) { return caller }
        refusedLogins.record(from: address())
        return nil
    }

    /// All connections, oldest first.
    private var connectionsInOrder: [GRPCConnection] {
        connections.values.sorted { $0.number < $1.number }.map(\.connection)
    }

    func checkCallers() {
        for connection in connectionsInOrder { connection.endCalls { access.current($0) == nil } }
    }

    package func shutDown() { for connection in connectionsInOrder { connection.shutDown() } }
}
