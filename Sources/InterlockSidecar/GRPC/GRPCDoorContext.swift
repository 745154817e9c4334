internal import Interlock
internal import Logging
internal import NIOCore
internal import NIOHPACK

/// What the connections of a gRPC door share. Confined to the coordinator's event loop.
final class GRPCDoorContext {
    /// A client must have asked for something by then.
    let firstRequestTimeout = TimeAmount.seconds(10)
    /// A connection without a call under way is ended after so long; clients make another one when they need it.
    let idleTimeout = TimeAmount.minutes(10)
    /// A client may read nothing for so long.
    let unreadTimeout = TimeAmount.minutes(1)

    let methods: [String: GRPCMethod]
    /// What stands for all that there is not.
    let unknownMethod: GRPCMethod
    let flushes: DoorFlushes
    private let access: AccessControl
    private let refusedLogins: RefusedLogins
    private let maximumConnections: Int
    private var connections: [ObjectIdentifier: GRPCConnection] = [:]

    init(
        methods: [GRPCMethod], access: AccessControl, maximumConnections: Int, eventLoop: any EventLoop,
        metrics: PrometheusRegistry, logger: Logger
    ) {
        self.methods = Dictionary(methods.map { ($0.path, $0) }, uniquingKeysWith: { $1 })
        unknownMethod = GRPCMethod("unknown", in: metrics) { call, _ in call.fail(.unimplemented, "there is no such method") }
        self.access = access
        self.maximumConnections = maximumConnections
        flushes = DoorFlushes(eventLoop: eventLoop)
        refusedLogins = RefusedLogins(door: "grpc", logger: logger)
    }

    var connectionCount: Int { connections.count }

    /// Serves a connection that was accepted, or closes it where there are too many.
    func serve(_ channel: any Channel, secured: () throws -> Void) throws {
        guard connections.count < maximumConnections else { return channel.close(promise: nil) }
        PeerLiveness.watch(channel)
        try secured()
        let connection = try GRPCConnection.begin(on: channel, door: self)
        connections[ObjectIdentifier(connection)] = connection
    }

    func disconnected(_ connection: GRPCConnection) {
        connections[ObjectIdentifier(connection)] = nil
    }

    /// Whether a call with these fields is let in.
    func admits(_ fields: HPACKHeaders, from address: @autoclosure () -> SocketAddress?) -> Bool {
        guard access.requiresKey else { return true }
        let key = HTTPGate.key(apiKey: fields.first(name: "x-api-key"), authorization: fields.first(name: "authorization"))
        guard let key else { return false }
        if access.caller(key: key) != nil { return true }
        refusedLogins.refused(from: address())
        return false
    }

    /// No further call is taken; connections end when theirs are answered.
    func goDown() { for connection in Array(connections.values) { connection.goDown() } }
}
