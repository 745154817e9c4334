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
    /// The lifetime of a connection without calls; clients reconnect when they need to.
    let idleTimeout = TimeAmount.minutes(10)
    /// How long a client may leave responses unread.
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
    private var lastNumber = 0
    /// Connections without an accepted call.
    private var newcomers: UnidentifiedConnections<GRPCConnection>

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
        newcomers = UnidentifiedConnections(limit: isTLS ? UnidentifiedConnections<GRPCConnection>.maximumWithTLS : nil)
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
        lastNumber += 1
        connections[ObjectIdentifier(connection)] = (lastNumber, connection)
        newcomers.add(connection, now: scheduler.eventLoop.uptime)
        if newcomers.isOverLimit { makeRoom() }
    }

    func makeRoom() {
        guard let connection = newcomers.makeRoom(now: scheduler.eventLoop.uptime) else { return }
        disconnected(connection)
        connection.evict()
    }

    /// Records that a call of this connection was accepted.
    func admitted(_ connection: GRPCConnection) { newcomers.remove(connection) }

    func disconnected(_ connection: GRPCConnection) {
        connections[ObjectIdentifier(connection)] = nil
        newcomers.remove(connection)
    }

    /// Returns the caller that these fields identify; `nil` if the call is refused.
    func caller(_ fields: HPACKHeaders, from address: @autoclosure () -> SocketAddress?) -> AccessControl.Caller? {
        if let anonymous = access.anonymous { return anonymous }
        let key = HTTPGate.key(apiKey: fields.first(name: "x-api-key"), authorization: fields.first(name: "authorization"))
        guard let key else { return nil }
        if let caller = access.caller(key: key) { return caller }
        refusedLogins.refused(from: address())
        return nil
    }

    /// All connections, oldest first.
    private var inOrder: [GRPCConnection] { connections.values.sorted { $0.number < $1.number }.map(\.connection) }

    func checkCallers() {
        for connection in inOrder { connection.endCalls { access.current($0) == nil } }
    }

    package func shutDown() { for connection in inOrder { connection.shutDown() } }
}
