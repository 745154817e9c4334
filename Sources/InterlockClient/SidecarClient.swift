internal import CoreMetrics
public import InterlockCore
public import Logging
package import NIOCore
internal import NIOPosix
public import ServiceLifecycle

/// A client of one sidecar's RESP API.
///
/// ```swift
/// import InterlockClient
///
/// let client = SidecarClient(address: .standard)
/// try await client.locks.withLock("orders", wait: .seconds(5)) { lease in
///     // Pass lease.fence to the resource that the lock guards.
/// }
/// await client.close()
/// ```
///
/// Any number of tasks may share a client. Calls that do not wait are pipelined on one connection, which opens on the
/// first call and reconnects after a loss. A call that waits for a lock, a limit or a permit uses its own connection
/// meanwhile, because a sidecar answers the calls of a connection in order. Cancelling the task closes that connection,
/// and the sidecar abandons the request; a lease granted at that moment is released.
///
/// A call is sent at most once. If the connection is lost before the answer, the call fails with `responseLost`, and
/// the caller must find out whether it took effect. Repeating an acquire with the same `owner` is safe.
public actor SidecarClient: Service {
    /// The configuration of this client.
    public nonisolated let configuration: SidecarClientConfiguration
    nonisolated let eventLoop: any EventLoop
    let logger: Logger
    let metrics = SidecarClientMetrics()
    /// The connection for calls that do not wait.
    private let sharedConnection: SidecarConnection
    /// The continuations of callers that wait for the current connection attempt.
    private var connectContinuations: [CheckedContinuation<Void, any Error>] = []
    /// The dedicated connections of waiting calls and linked leases.
    private var dedicatedConnections: [ObjectIdentifier: DedicatedConnection] = [:]
    /// The dedicated connections that are free for the next waiting call.
    private var idleConnections: [DedicatedConnection] = []
    /// The number of calls that currently wait at the sidecar.
    private var waitingCallCount = 0
    nonisolated let subscriptions = EventSubscriptions()
    /// The connection for events; `nil` while there are no subscriptions, and until it opens.
    private var eventSubscription: NIOLoopBound<SidecarSubscription>?
    /// The task that asks for the event channel until the sidecar answers; `nil` if no such task is running.
    private var subscriptionTask: Task<Void, Never>?
    private var isClosed = false

    /// The maximum number of idle connections that are kept for later waiting calls.
    private static let maximumIdleConnections = 8
    /// The time for which an idle connection is kept.
    private static let idleTime = TimeAmount.seconds(10)

    /// The client's event loop, as the executor of this actor.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    /// Creates a client of the sidecar at `address`. It connects on its first call.
    public init(address: SidecarAddress, apiKey: String? = nil) {
        self.init(SidecarClientConfiguration(address: address, apiKey: apiKey))
    }

    /// Creates a client that connects on its first call.
    public init(_ configuration: SidecarClientConfiguration, logger: Logger = Logger(label: "interlock.client")) {
        self.init(configuration, eventLoop: MultiThreadedEventLoopGroup.singleton.next(), logger: logger)
    }

    package init(_ configuration: SidecarClientConfiguration, eventLoop: any EventLoop, logger: Logger) {
        self.configuration = configuration
        self.eventLoop = eventLoop
        self.logger = logger
        sharedConnection = SidecarConnection(configuration, eventLoop: eventLoop, logger: logger)
        subscriptions.whenCountChanges { [weak self] in
            eventLoop.execute { [weak self] in self?.assumeIsolated { $0.subscriptionsChanged() } }
        }
    }

    deinit {
        subscriptions.finish()
        if let eventSubscription { eventLoop.execute { eventSubscription.value.close() } }
    }

    /// Runs `body` with a connected client, and closes the client even if `body` throws.
    /// - Throws: `InterlockError` if no sidecar answers or it rejects the login, or any error that `body` throws.
    public static func withClient<Result>(
        _ configuration: SidecarClientConfiguration, _ body: (SidecarClient) async throws -> Result
    ) async throws -> Result {
        let client = SidecarClient(configuration)
        return try await withCleanup {
            try await client.connect()
            return try await body(client)
        } finally: {
            await client.close()
        }
    }

    /// Connects, and closes the client on graceful shutdown or when its task is cancelled. Does not throw if the
    /// sidecar is unreachable, because the calls report that.
    public func run() async throws {
        try? await connect()
        try? await gracefulShutdown()
        await close()
    }

    /// Connects and logs in. Calling this method is optional, because the first call connects too.
    /// - Throws: `InterlockError` if the attempt fails. The client then schedules a retry, and the next call waits for
    ///   it.
    public func connect() async throws {
        guard !isClosed else { throw closedError }
        guard !sharedConnection.isUp else { return }
        guard connectContinuations.count < configuration.maximumInFlight else {
            throw InterlockError(.overloaded, "\(connectContinuations.count) calls already wait for a connection")
        }
        sharedConnection.onUp = { [weak self, metrics] in
            metrics.connects.increment()
            self?.assumeIsolated { $0.resumeConnecting(with: .success(())) }
        }
        sharedConnection.onDown = { [weak self, metrics] error in
            metrics.connectionFailures.increment()
            self?.assumeIsolated { $0.resumeConnecting(with: .failure(error)) }
        }
        try await withCheckedThrowingContinuation { continuation in
            connectContinuations.append(continuation)
            sharedConnection.start()
        }
    }

    /// Closes all connections of this client. Calls in flight fail, and the sidecar releases linked leases.
    public func close() async {
        isClosed = true
        subscriptions.finish()
        subscriptionsChanged()
        resumeConnecting(with: .failure(closedError))
        for connection in dedicatedConnections.values { connection.close() }
        // Closing cannot fail, because only this side completes the future.
        try? await sharedConnection.close().get()
    }

    private var closedError: InterlockError {
        InterlockError(.notConnected, "this client of the sidecar at \(configuration.address) was closed")
    }

    private func resumeConnecting(with result: Result<Void, any Error>) {
        let continuations = connectContinuations
        connectContinuations = []
        for continuation in continuations { continuation.resume(with: result) }
    }

    // MARK: Events

    /// The events of the fleet. Their connection opens with the first subscription, reconnects after a loss, and closes
    /// with the last subscription.
    public nonisolated var events: Events { Events(subscriptions) }

    private func subscriptionsChanged() {
        if subscriptions.count == 0 {
            subscriptionTask?.cancel()
            subscriptionTask = nil
            // An intentional close is not an interruption.
            eventSubscription?.value.onDown = nil
            eventSubscription?.value.close()
            eventSubscription = nil
            subscriptions.recordConnection(nil)
        } else if eventSubscription == nil, subscriptionTask == nil {
            subscriptionTask = Task { [weak self] in
                while await self?.subscribeToEvents() == false {
                    // The pause before the next attempt. Cancellation ends the pause early.
                    try? await Task.sleep(for: Self.subscriptionRetryDelay)
                }
            }
        }
    }

    /// Subscribes to the fleet's channel. The subscription recovers from later losses of its connection.
    /// - Returns: `false` if another attempt is necessary, because asking the sidecar for the channel failed.
    private func subscribeToEvents() async -> Bool {
        var channel = configuration.eventChannel
        do {
            if channel == nil { channel = try await status().eventChannel }
        } catch {
            guard !Task.isCancelled else { return true }
            if let error = error as? InterlockError { subscriptions.recordConnection(.interrupted(error)) }
            return false
        }
        guard !Task.isCancelled else { return true }
        let subscription = SidecarSubscription(
            configuration, channel: channel ?? Self.legacyEventChannel, eventLoop: eventLoop, logger: logger)
        subscription.onFollowing = { [subscriptions] in subscriptions.recordConnection(.following) }
        subscription.onDown = { [subscriptions] error in subscriptions.recordConnection(.interrupted(error)) }
        subscription.onEvent = { [subscriptions] json in
            if let event = ReceivedEvent(json) { subscriptions.publish(.event(event)) }
        }
        eventSubscription = NIOLoopBound(subscription, eventLoop: eventLoop)
        subscriptionTask = nil
        subscription.start()
        return true
    }

    /// The channel of a sidecar that does not report one: version 0.1.0 with the default `redis.prefix`.
    private static let legacyEventChannel = "interlock:events"
    /// The delay before the client asks the sidecar for the channel again.
    private static let subscriptionRetryDelay = Duration.seconds(1)

    // MARK: Sidecar

    /// Returns the live members of the fleet, sorted by ID.
    public func fleet() async throws -> [FleetMember] {
        try await send(FleetCalls.List())
    }

    /// Returns the status of the sidecar, its Redis and its fleet.
    public func status() async throws -> SidecarStatus {
        try await send(StatusCalls.Report())
    }

    /// Returns a view of the sidecar's console as a JSON object.
    /// - Parameter arguments: the view and its options, as `LIVE.VIEW` takes them.
    package func view(_ arguments: [String]) async throws -> String {
        try await send(ViewCalls.View(arguments: arguments))
    }

    // MARK: Calls

    /// Sends a call, on the shared connection unless the call waits.
    package func send<Call: SidecarCall>(_ call: Call) async throws -> Call.Reply {
        try Task.checkCancellation()
        guard call.wait > .zero else { return try await sendOnSharedConnection(call) }
        return try await metrics.counting { try await sendWaiting(call) }
    }

    /// Sends a call on the shared connection, even if the task was cancelled.
    func sendOnSharedConnection<Call: SidecarCall>(_ call: Call) async throws -> Call.Reply {
        try await metrics.counting {
            // Connecting may take a while, and the connection may be lost again meanwhile.
            if !sharedConnection.isUp { try await connect() }
            return try await withCheckedThrowingContinuation { continuation in
                sharedConnection.send(call) { continuation.resume(with: $0) }
            }
        }
    }

    private func sendWaiting<Call: SidecarCall>(_ call: Call) async throws -> Call.Reply {
        guard waitingCallCount < configuration.maximumWaiting else {
            throw InterlockError(
                .overloaded, "\(waitingCallCount) calls already wait at the sidecar at \(configuration.address)")
        }
        waitingCallCount += 1
        defer { waitingCallCount -= 1 }
        let connection = try idleConnections.popLast() ?? makeDedicatedConnection()
        let reply = try await send(call, on: connection)
        returnToPool(connection)
        return reply
    }

    /// Sends a call on a dedicated connection. Cancellation closes the connection.
    func send<Call: SidecarCall>(_ call: Call, on connection: DedicatedConnection) async throws -> Call.Reply {
        let connectionOnLoop = NIOLoopBound(connection, eventLoop: eventLoop)
        let callNumber = connection.callNumber + 1
        do {
            return try await withTaskCancellationHandler {
                try await perform(call, on: connectionOnLoop)
            } onCancel: { [eventLoop] in
                eventLoop.execute { connectionOnLoop.value.withdraw(call: callNumber) }
            }
        } catch {
            // An error reply leaves the connection usable.
            if let error = error as? InterlockError, error.isFromSidecar { returnToPool(connection) } else { connection.close() }
            try Task.checkCancellation()
            throw error
        }
    }

    /// Sends a call from the event loop, which is this actor's executor. The closure passed to
    /// `withTaskCancellationHandler` may run on another executor.
    private func perform<Call: SidecarCall>(
        _ call: Call, on connection: NIOLoopBound<DedicatedConnection>
    ) async throws -> Call.Reply {
        try await withCheckedThrowingContinuation { continuation in
            connection.value.send(call) { continuation.resume(with: $0) }
        }
    }

    /// Creates a dedicated connection that is closed together with this client.
    func makeDedicatedConnection() throws(InterlockError) -> DedicatedConnection {
        guard !isClosed else { throw closedError }
        let connection = DedicatedConnection(configuration, eventLoop: eventLoop, logger: logger)
        let id = ObjectIdentifier(connection)
        dedicatedConnections[id] = connection
        connection.onClose = { [weak self] in
            self?.assumeIsolated { client in
                client.dedicatedConnections[id] = nil
                client.idleConnections.removeAll { ObjectIdentifier($0) == id }
            }
        }
        return connection
    }

    /// Keeps a connection for the next waiting call, or closes it if enough connections are idle.
    private func returnToPool(_ connection: DedicatedConnection) {
        guard !connection.isClosed else { return }
        guard idleConnections.count < Self.maximumIdleConnections else {
            connection.close()
            return
        }
        connection.expire(after: Self.idleTime)
        idleConnections.append(connection)
    }
}
