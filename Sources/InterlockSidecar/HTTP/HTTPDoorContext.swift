package import Logging
package import NIOCore
internal import NIOHTTP1

/// What the connections of an HTTP door share. Confined to the coordinator's event loop.
package final class HTTPDoorContext: ListenerContext {
    enum Place {
        case ordinary
        /// All others are taken: it tells how the sidecar is, once.
        case kept
    }

    /// So many more than `listen.max_connections` are accepted, for health and metrics.
    private static let keptPlaces = 16
    /// The most connections with a reserved descriptor, for the same reason.
    static let mostFromReserve = 8
    /// The same as `firstRequestTimeout`, at one of those.
    private static let shortTimeout = TimeAmount.seconds(1)
    static let limits: NIOHTTPDecoderLimitConfiguration = {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = 8 * 1024
        limits.maxHeaderListSize = 32 * 1024
        limits.maxHeaderFieldCount = 100
        return limits
    }()

    let router: HTTPRouter
    let gate: HTTPGate
    let isTLS: Bool
    let logger: Logger
    let turns: ClientTurns
    /// `nil`: no request is traced.
    let tracer: Tracer?
    let refusedLogins: RefusedClients
    /// A connection without a request under way, or whose request does not arrive, is closed after so long.
    let idleTimeout: TimeAmount
    /// Happens when the sidecar goes down.
    let shutdown = Occurrence()
    private let firstRequestTimeout: TimeAmount
    private let maximumConnections: Int
    private var connections: [ObjectIdentifier: any HTTPDoorConnection] = [:]
    /// Connections without an accepted request.
    private var newcomers: Newcomers<AnyObject>
    private var fromReserve = 0
    /// How many streams the connections have that have many.
    private var streams = 0
    /// Lets the listener accept the next connection.
    private var accept: (() -> Void)?

    package init(
        router: HTTPRouter, gate: HTTPGate, isTLS: Bool, maximumConnections: Int, firstRequestTimeout: TimeAmount,
        idleTimeout: TimeAmount, tracer: Tracer? = nil, turns: ClientTurns, logger: Logger
    ) {
        self.router = router
        self.gate = gate
        self.isTLS = isTLS
        self.maximumConnections = maximumConnections
        self.firstRequestTimeout = firstRequestTimeout
        self.idleTimeout = idleTimeout
        self.tracer = tracer
        self.turns = turns
        self.logger = logger
        newcomers = Newcomers(most: isTLS ? Newcomers<AnyObject>.mostWithTLS : nil)
        refusedLogins = RefusedClients(.unknownKey, at: .http, logger: logger)
    }

    var connectionCount: Int { connections.count }

    /// Until then a client must have agreed on TLS and sent the head of its first request.
    func firstRequestTimeout(at place: Place) -> TimeAmount {
        place == .kept ? min(firstRequestTimeout, Self.shortTimeout) : firstRequestTimeout
    }

    var listenerHandlers: [any ChannelHandler] { [AcceptWhenFree(self)] }

    package func serve(_ channel: any Channel, _ arrival: Arrival = Arrival()) throws {
        PeerLiveness.watch(channel)
        while connections.count >= maximumConnections, evictNewcomer() {}
        let turn = ClientTurn(turns)
        try arrival.secure(channel, turn)
        let isOrdinary = connections.count < maximumConnections && !arrival.isFromReserve
        let choice = HTTPProtocolChoice(door: self, place: isOrdinary ? .ordinary : .kept, turn: turn)
        connected(choice)
        try channel.pipeline.syncOperations.addHandler(choice)
        if newcomers.areTooMany { makeRoom() }
    }

    func takesFromReserve(_ channel: any Channel) -> Bool {
        guard fromReserve < Self.mostFromReserve else { return false }
        fromReserve += 1
        channel.closeFuture.assumeIsolated().whenComplete { [self] _ in fromReserve -= 1 }
        return true
    }

    func makeRoom() { _ = evictNewcomer() }

    /// - Returns: whether there was one.
    private func evictNewcomer() -> Bool {
        guard let connection = newcomers.makeRoom(now: .uptimeNow) as? any HTTPDoorConnection else { return false }
        disconnected(connection)
        connection.evict()
        return true
    }

    func connected(_ connection: any HTTPDoorConnection) {
        connections[ObjectIdentifier(connection)] = connection
        newcomers.add(connection, now: .uptimeNow)
    }

    /// Notes that a request of this connection was accepted.
    /// - Parameter caller: `nil` if the route needs no key.
    func admitted(_ connection: any HTTPDoorConnection, _ caller: AccessControl.Caller?) {
        if caller != nil || !gate.access.requiresKey { newcomers.remove(connection) }
    }

    func checkCallers() {
        for connection in Array(connections.values) { connection.endIfRemoved { gate.access.current($0) == nil } }
    }

    func disconnected(_ connection: any HTTPDoorConnection) {
        connections[ObjectIdentifier(connection)] = nil
        newcomers.remove(connection)
        let accept = accept
        self.accept = nil
        accept?()
    }

    /// One request more among the streams of all connections, of which there may be as many as of connections.
    /// - Returns: its place.
    func streamBegins() -> Place {
        streams += 1
        return streams <= maximumConnections ? .ordinary : .kept
    }

    func streamEnded() { streams -= 1 }

    /// Calls `accept` when there is a place, kept ones among them.
    func whenFree(_ accept: @escaping () -> Void) {
        let places = maximumConnections + Self.keptPlaces
        if connections.count >= places { makeRoom() }
        guard connections.count >= places else { return accept() }
        self.accept = accept
    }

    func goDown() {
        shutdown.happen()
        for connection in Array(connections.values) { connection.goDown() }
    }
}

/// A client's connection as its door knows it. Confined to the coordinator's event loop.
protocol HTTPDoorConnection: AnyObject {
    /// The sidecar goes down: no further request is taken.
    func goDown()
    /// Ends everything that callers with removed keys have open.
    func endIfRemoved(_ isRemoved: (AccessControl.Caller) -> Bool)
    /// Makes room for another connection: this client is unknown.
    func evict()
}

/// Lets a listener accept no connection while there is no place for one.
final class AcceptWhenFree: ChannelOutboundHandler {
    typealias OutboundIn = NIOAny

    private let door: HTTPDoorContext

    init(_ door: HTTPDoorContext) {
        self.door = door
    }

    func read(context: ChannelHandlerContext) {
        door.whenFree { context.read() }
    }
}
