package import Logging
package import NIOCore
internal import NIOHTTP1
internal import SidecarSettings
package import SidecarTelemetry

/// The common state of the HTTP API's connections. Confined to the coordinator's event loop.
package final class HTTPListenerContext: ListenerContext {
    enum SlotKind {
        case ordinary
        /// A reserve slot for health and metrics, used when all ordinary slots are taken.
        case reserved
    }

    /// The number of reserve slots: connections accepted beyond `listen.max_connections`, for health and metrics.
    private static let reservedSlots = 16
    /// The maximum number of connections that use a reserved descriptor, for the same purpose.
    static let maximumReservedDescriptors = 8
    /// The upper limit of `firstRequestTimeout` in a reserve slot.
    private static let reserveTimeout = TimeAmount.seconds(1)
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
    let scheduler: SliceScheduler
    /// The tracer; `nil` if no request is traced.
    let tracer: Tracer?
    let refusedLogins: RefusedClients
    let date: HTTPDate
    /// The lifetime of a connection that has no request in flight, or whose request does not arrive.
    let idleTimeout: TimeAmount
    /// The sidecar's shutdown.
    let shutdown = OneTimeEvent()
    private let firstRequestTimeout: TimeAmount
    private let maximumConnections: Int
    private var connections: [ObjectIdentifier: (number: Int, connection: any HTTPListenerConnection)] = [:]
    private var lastNumber = 0
    /// Connections without an accepted request.
    private var newcomers: UnidentifiedConnections<AnyObject>
    private var usedReservedDescriptors = 0
    /// The number of streams of HTTP/2 connections in ordinary slots.
    private var streams = 0
    /// Lets the listener accept the next connection.
    private var accept: (() -> Void)?

    package init(
        router: HTTPRouter, gate: HTTPGate, isTLS: Bool, maximumConnections: Int, firstRequestTimeout: TimeAmount,
        idleTimeout: TimeAmount, tracer: Tracer? = nil, date: HTTPDate = HTTPDate(), scheduler: SliceScheduler, logger: Logger
    ) {
        self.router = router
        self.gate = gate
        self.isTLS = isTLS
        self.maximumConnections = maximumConnections
        self.firstRequestTimeout = firstRequestTimeout
        self.idleTimeout = idleTimeout
        self.tracer = tracer
        self.date = date
        self.scheduler = scheduler
        self.logger = logger
        newcomers = UnidentifiedConnections(limit: isTLS ? UnidentifiedConnections<AnyObject>.maximumWithTLS : nil)
        refusedLogins = RefusedClients(.unknownKey, at: .http, logger: logger)
    }

    var now: NIODeadline { scheduler.eventLoop.now }

    var connectionCount: Int { connections.count }

    /// Returns the time limit for a client to complete the TLS handshake and send the head of its first request.
    func firstRequestTimeout(at slotKind: SlotKind) -> TimeAmount {
        slotKind == .reserved ? min(firstRequestTimeout, Self.reserveTimeout) : firstRequestTimeout
    }

    var listenerHandlers: [any ChannelHandler] { [AcceptWhenFree(self)] }

    package func serve(_ channel: any Channel, _ origin: ConnectionOrigin = ConnectionOrigin()) throws {
        PeerLiveness.watch(channel)
        while connections.count >= maximumConnections, evictNewcomer() {}
        let slices = ConnectionSlices(scheduler)
        try origin.secure(channel, slices)
        let isOrdinary = connections.count < maximumConnections && !origin.usesReservedDescriptor
        let choice = HTTPProtocolDetector(listener: self, slotKind: isOrdinary ? .ordinary : .reserved, slices: slices)
        connected(choice)
        try channel.pipeline.syncOperations.addHandler(choice)
        if newcomers.isOverLimit { makeRoom() }
    }

    func claimReservedDescriptor(_ channel: any Channel) -> Bool {
        guard usedReservedDescriptors < Self.maximumReservedDescriptors else { return false }
        usedReservedDescriptors += 1
        channel.closeFuture.assumeIsolated().whenComplete { [self] _ in usedReservedDescriptors -= 1 }
        return true
    }

    func makeRoom() { _ = evictNewcomer() }

    /// - Returns: whether a connection was evicted.
    private func evictNewcomer() -> Bool {
        guard let connection = newcomers.makeRoom(now: scheduler.eventLoop.uptime) as? any HTTPListenerConnection else {
            return false
        }
        disconnected(connection)
        connection.evict()
        return true
    }

    func connected(_ connection: any HTTPListenerConnection) {
        lastNumber += 1
        connections[ObjectIdentifier(connection)] = (lastNumber, connection)
        newcomers.add(connection, now: scheduler.eventLoop.uptime)
    }

    /// Records that a request of this connection was accepted.
    /// - Parameter caller: `nil` if the route needs no key.
    func admitted(_ connection: any HTTPListenerConnection, _ caller: AccessControl.Caller?) {
        if caller != nil || !gate.access.requiresKey { newcomers.remove(connection) }
    }

    /// All connections, oldest first.
    private var inOrder: [any HTTPListenerConnection] {
        connections.values.sorted { $0.number < $1.number }.map(\.connection)
    }

    func checkCallers() {
        for connection in inOrder { connection.closeIfKeyRevoked { gate.access.current($0) == nil } }
    }

    func disconnected(_ connection: any HTTPListenerConnection) {
        connections[ObjectIdentifier(connection)] = nil
        newcomers.remove(connection)
        let accept = accept
        self.accept = nil
        accept?()
    }

    /// Counts a stream. All connections together may have as many ordinary streams as there may be connections.
    /// - Returns: the stream's kind of slot.
    func streamBegins() -> SlotKind {
        streams += 1
        return streams <= maximumConnections ? .ordinary : .reserved
    }

    func streamEnded() { streams -= 1 }

    /// Calls `accept` once a slot is free, which may be a reserve slot.
    func whenFree(_ accept: @escaping () -> Void) {
        let capacity = maximumConnections + Self.reservedSlots
        if connections.count >= capacity { makeRoom() }
        guard connections.count >= capacity else { return accept() }
        self.accept = accept
    }

    package func shutDown() {
        shutdown.fire()
        for connection in inOrder { connection.shutDown() }
    }
}

/// Keeps a listener from accepting connections while no slot is free.
final class AcceptWhenFree: ChannelOutboundHandler {
    typealias OutboundIn = NIOAny

    private let listener: HTTPListenerContext

    init(_ listener: HTTPListenerContext) {
        self.listener = listener
    }

    func read(context: ChannelHandlerContext) {
        listener.whenFree { context.read() }
    }
}
