package import Logging
package import NIOCore
internal import NIOHTTP1
internal import SidecarSettings
package import SidecarTelemetry

/// The state that the connections of the HTTP listener share. Confined to the coordinator's event loop.
package final class HTTPListenerContext: ListenerContext {
    enum SlotKind {
        /// One of the `listen.max_connections` slots.
        case ordinary
        /// A reserve slot for health and metrics, used when all ordinary slots are taken.
        case reserved
    }

    /// The number of reserve slots: connections beyond `listen.max_connections`, for health and metrics.
    private static let reservedSlotCount = 16
    /// The maximum number of connections that use a reserved descriptor, for the same purpose.
    static let maximumReservedDescriptors = 8
    /// The upper limit of `firstRequestTimeout` in a reserve slot.
    private static let reserveTimeout = TimeAmount.seconds(1)
    /// The limits of a request's fields.
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
    /// The time after which a connection closes if no request is in flight, or if its request does not arrive.
    let idleTimeout: TimeAmount
    /// The event of the sidecar's shutdown.
    let shutdown = OneTimeEvent()
    private let firstRequestTimeout: TimeAmount
    private let maximumConnections: Int
    private var connections: [ObjectIdentifier: (number: Int, connection: any HTTPListenerConnection)] = [:]
    private var lastConnectionNumber = 0
    /// The connections without an accepted request.
    private var unidentified: UnidentifiedConnections<AnyObject>
    private var usedReservedDescriptorCount = 0
    /// The number of streams on the HTTP/2 connections in ordinary slots.
    private var ordinaryStreamCount = 0
    /// Accepts the next connection; `nil` unless the listener waits for a slot.
    private var pendingAccept: (() -> Void)?

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
        unidentified = UnidentifiedConnections(limit: isTLS ? UnidentifiedConnections<AnyObject>.maximumWithTLS : nil)
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
        while connections.count >= maximumConnections, evictUnidentified() {}
        let slices = ConnectionSlices(scheduler)
        try origin.secure(channel, slices)
        let isOrdinary = connections.count < maximumConnections && !origin.usesReservedDescriptor
        let slotKind = isOrdinary ? SlotKind.ordinary : .reserved
        let detector = HTTPProtocolDetector(listener: self, slotKind: slotKind, slices: slices)
        connectionOpened(detector)
        try channel.pipeline.syncOperations.addHandler(detector)
        if unidentified.isOverLimit { makeRoom() }
    }

    func claimReservedDescriptor(_ channel: any Channel) -> Bool {
        guard usedReservedDescriptorCount < Self.maximumReservedDescriptors else { return false }
        usedReservedDescriptorCount += 1
        channel.closeFuture.assumeIsolated().whenComplete { [self] _ in usedReservedDescriptorCount -= 1 }
        return true
    }

    func makeRoom() { _ = evictUnidentified() }

    /// Closes the oldest unidentified connection, if it may be evicted.
    /// - Returns: whether a connection was evicted.
    private func evictUnidentified() -> Bool {
        let nowNanoseconds = scheduler.eventLoop.uptimeNanoseconds
        guard let connection = unidentified.makeRoom(nowNanoseconds: nowNanoseconds) as? any HTTPListenerConnection
        else {
            return false
        }
        connectionClosed(connection)
        connection.evict()
        return true
    }

    /// Adds a connection.
    func connectionOpened(_ connection: any HTTPListenerConnection) {
        lastConnectionNumber += 1
        connections[ObjectIdentifier(connection)] = (lastConnectionNumber, connection)
        unidentified.add(connection, now: scheduler.eventLoop.uptimeNanoseconds)
    }

    /// Records that a request of this connection was accepted.
    /// - Parameter caller: the caller; `nil` if the route needs no key.
    func clientAdmitted(_ connection: any HTTPListenerConnection, _ caller: AccessControl.Caller?) {
        if caller != nil || !gate.access.requiresKey { unidentified.remove(connection) }
    }

    /// All connections, oldest first.
    private var connectionsInOrder: [any HTTPListenerConnection] {
        connections.values.sorted { $0.number < $1.number }.map(\.connection)
    }

    func checkCallers() {
        for connection in connectionsInOrder { connection.closeIfKeyRevoked { gate.access.current($0) == nil } }
    }

    /// Removes a connection, and accepts another one if the listener waits for a slot.
    func connectionClosed(_ connection: any HTTPListenerConnection) {
        connections[ObjectIdentifier(connection)] = nil
        unidentified.remove(connection)
        let accept = pendingAccept
        pendingAccept = nil
        accept?()
    }

    /// Counts a new stream of a connection in an ordinary slot. All connections together may have as many ordinary
    /// streams as there may be connections.
    /// - Returns: the kind of slot that the stream gets.
    func streamBegins() -> SlotKind {
        ordinaryStreamCount += 1
        return ordinaryStreamCount <= maximumConnections ? .ordinary : .reserved
    }

    /// Records that a counted stream ended.
    func streamEnded() { ordinaryStreamCount -= 1 }

    /// Calls `accept` once an ordinary or reserve slot is free, possibly before this method returns.
    func whenFree(_ accept: @escaping () -> Void) {
        let capacity = maximumConnections + Self.reservedSlotCount
        if connections.count >= capacity { makeRoom() }
        guard connections.count >= capacity else { return accept() }
        pendingAccept = accept
    }

    package func shutDown() {
        shutdown.fire()
        for connection in connectionsInOrder { connection.shutDown() }
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
