internal import CoreMetrics
public import InterlockCore
public import Logging
package import NIOCore
internal import NIOPosix
public import ServiceLifecycle

/// A client of one sidecar's RESP door.
///
/// ```swift
/// import InterlockClient
///
/// let client = SidecarClient(address: .standard)
/// try await client.locks.withLock("orders", wait: .seconds(5)) { lease in
///     // Show lease.fence to what the lock guards.
/// }
/// await client.close()
/// ```
///
/// Any number of tasks may share a client. Calls that do not wait are pipelined on one connection, which is made with the first
/// call and made again when it is lost. A call that waits for a lock or for a turn has a connection of its own meanwhile, because
/// a sidecar answers the calls of a connection in order. Cancelling its task closes that connection, and the sidecar gives up the
/// request; a lease that was granted in that moment is released.
///
/// A call is sent at most once. When the connection is lost before the answer it fails with `answerLost`, and the caller must
/// find out what became of it: an acquire with the same `owner` is safe to repeat.
public actor SidecarClient: Service {
    /// How this client reaches its sidecar.
    public nonisolated let configuration: SidecarClientConfiguration
    nonisolated let eventLoop: any EventLoop
    let logger: Logger
    let metrics = SidecarClientMetrics()
    private let shared: SidecarConnection
    /// Those who wait for the attempt to connect.
    private var connecting: [CheckedContinuation<Void, any Error>] = []
    /// Of calls that wait, and of linked leases.
    private var ownConnections: [ObjectIdentifier: OwnConnection] = [:]
    /// Those of them that are free.
    private var idle: [OwnConnection] = []
    /// How many calls wait.
    private var waiting = 0
    nonisolated let subscriptions = EventSubscriptions()
    /// The connection for events; `nil`: there are no subscriptions.
    private var following: NIOLoopBound<SidecarSubscription>?
    /// The task that asks for the events' channel; `nil`: it has ended.
    private var beginning: Task<Void, Never>?
    private var isClosed = false

    /// Connections that are kept for the next call that waits, and for how long.
    private static let mostIdle = 8
    private static let idleTime = TimeAmount.seconds(10)

    /// The client's event loop.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    /// A client of the sidecar at `address`. It connects with its first call.
    public init(address: SidecarAddress, apiKey: String? = nil) {
        self.init(SidecarClientConfiguration(address: address, apiKey: apiKey))
    }

    /// A client that connects with its first call.
    public init(_ configuration: SidecarClientConfiguration, logger: Logger = Logger(label: "interlock.client")) {
        self.init(configuration, eventLoop: MultiThreadedEventLoopGroup.singleton.next(), logger: logger)
    }

    package init(_ configuration: SidecarClientConfiguration, eventLoop: any EventLoop, logger: Logger) {
        self.configuration = configuration
        self.eventLoop = eventLoop
        self.logger = logger
        shared = SidecarConnection(configuration, eventLoop: eventLoop, logger: logger)
        subscriptions.whenCountChanges { [weak self] in
            eventLoop.execute { [weak self] in self?.assumeIsolated { $0.subscriptionsChanged() } }
        }
    }

    deinit {
        subscriptions.finish()
        if let following { eventLoop.execute { following.value.close() } }
    }

    /// Runs `body` with a connected client, and closes the client whatever happens.
    /// - Throws: `InterlockError` when no sidecar answers or it refuses the login; whatever `body` throws.
    public static func withClient<Result>(
        _ configuration: SidecarClientConfiguration, _ body: (SidecarClient) async throws -> Result
    ) async throws -> Result {
        let client = SidecarClient(configuration)
        return try await attempt {
            try await client.connect()
            return try await body(client)
        } finally: {
            await client.close()
        }
    }

    /// Connects, and closes the client on graceful shutdown or when its task is cancelled. Does not throw if the
    /// sidecar is unreachable: the calls report that.
    public func run() async throws {
        try? await connect()
        try? await gracefulShutdown()
        await close()
    }

    /// Connects and logs in, which the first call does otherwise.
    /// - Throws: `InterlockError` when the attempt fails. A retry is then scheduled, and the next call waits for it.
    public func connect() async throws {
        guard !isClosed else { throw closed }
        guard !shared.isUp else { return }
        guard connecting.count < configuration.maximumInFlight else {
            throw InterlockError(.overloaded, "\(connecting.count) calls already wait for a connection")
        }
        shared.onUp = { [weak self, metrics] in
            metrics.connects.increment()
            self?.assumeIsolated { $0.attempted(.success(())) }
        }
        shared.onDown = { [weak self, metrics] error in
            metrics.connectionFailures.increment()
            self?.assumeIsolated { $0.attempted(.failure(error)) }
        }
        try await withCheckedThrowingContinuation { continuation in
            connecting.append(continuation)
            shared.start()
        }
    }

    /// Ends all connections of this client. What is in flight fails; the sidecar releases linked leases.
    public func close() async {
        isClosed = true
        subscriptions.finish()
        subscriptionsChanged()
        attempted(.failure(closed))
        for connection in ownConnections.values { connection.close() }
        // Closing cannot fail: the future is completed by this side alone.
        try? await shared.close().get()
    }

    private var closed: InterlockError {
        InterlockError(.notConnected, "this client of the sidecar at \(configuration.address) was closed")
    }

    private func attempted(_ result: Result<Void, any Error>) {
        let attempt = connecting
        connecting = []
        for continuation in attempt { continuation.resume(with: result) }
    }

    // MARK: Events

    /// Events of the fleet. Their connection is made with the first subscription, made again when it is lost, and closed
    /// with the last.
    public nonisolated var events: Events { Events(subscriptions) }

    private func subscriptionsChanged() {
        if subscriptions.count == 0 {
            beginning?.cancel()
            beginning = nil
            // Its end is no interruption.
            following?.value.onDown = nil
            following?.value.close()
            following = nil
            subscriptions.note(nil)
        } else if following == nil, beginning == nil {
            beginning = Task { [weak self] in
                while await self?.follow() == false {
                    try? await Task.sleep(for: Self.followingDelay)
                }
            }
        }
    }

    /// Subscribes to the fleet's channel.
    /// - Returns: `false` if the sidecar did not name the channel. Later losses of the connection are repaired by the
    ///   subscription itself.
    private func follow() async -> Bool {
        var channel = configuration.eventChannel
        do {
            if channel == nil { channel = try await status().eventChannel }
        } catch {
            guard !Task.isCancelled else { return true }
            if let error = error as? InterlockError { subscriptions.note(.interrupted(error)) }
            return false
        }
        guard !Task.isCancelled else { return true }
        let subscription = SidecarSubscription(
            configuration, channel: channel ?? Self.usualEventChannel, eventLoop: eventLoop, logger: logger)
        subscription.onFollowing = { [subscriptions] in subscriptions.note(.following) }
        subscription.onDown = { [subscriptions] error in subscriptions.note(.interrupted(error)) }
        subscription.onEvent = { [subscriptions] json in
            if let event = ReceivedEvent(json) { subscriptions.publish(.event(event)) }
        }
        following = NIOLoopBound(subscription, eventLoop: eventLoop)
        beginning = nil
        subscription.start()
        return true
    }

    /// The channel of sidecars of 0.1.0, which do not name it, if they have no `redis.prefix`.
    private static let usualEventChannel = "interlock:events"
    /// The pause before the sidecar is asked for the channel again.
    private static let followingDelay = Duration.seconds(1)

    // MARK: About the sidecar

    /// Returns the live members of the fleet, sorted by ID.
    public func fleet() async throws -> [FleetMember] {
        try await send(FleetCalls.List())
    }

    /// Returns the status of the sidecar, its Redis and its fleet.
    public func status() async throws -> SidecarStatus {
        try await send(StatusCalls.Report())
    }

    /// Returns a view of the sidecar's console, as one JSON object.
    /// - Parameter words: the view and its options, as `LIVE.VIEW` takes them.
    package func look(_ words: [String]) async throws -> String {
        try await send(ViewCalls.Look(words: words))
    }

    // MARK: Calls

    /// Makes a call, on the shared connection unless it waits.
    package func send<Call: SidecarCall>(_ call: Call) async throws -> Call.Reply {
        try Task.checkCancellation()
        guard call.wait > .zero else { return try await deliver(call) }
        return try await metrics.counting { try await sendWaiting(call) }
    }

    /// Makes a call on the shared connection, also when the task is cancelled.
    func deliver<Call: SidecarCall>(_ call: Call) async throws -> Call.Reply {
        try await metrics.counting {
            // Connecting may have taken a while, and the connection may be lost again.
            if !shared.isUp { try await connect() }
            return try await withCheckedThrowingContinuation { continuation in
                shared.send(call) { continuation.resume(with: $0) }
            }
        }
    }

    private func sendWaiting<Call: SidecarCall>(_ call: Call) async throws -> Call.Reply {
        guard waiting < configuration.maximumWaiting else {
            throw InterlockError(.overloaded, "\(waiting) calls already wait at the sidecar at \(configuration.address)")
        }
        waiting += 1
        defer { waiting -= 1 }
        let connection = try idle.popLast() ?? makeOwnConnection()
        let reply = try await send(call, on: connection)
        keep(connection)
        return reply
    }

    /// Makes a call on a connection of its own. Cancellation closes the connection.
    func send<Call: SidecarCall>(_ call: Call, on connection: OwnConnection) async throws -> Call.Reply {
        let connectionOnLoop = NIOLoopBound(connection, eventLoop: eventLoop)
        let number = connection.callNumber + 1
        do {
            return try await withTaskCancellationHandler {
                try await perform(call, on: connectionOnLoop)
            } onCancel: { [eventLoop] in
                eventLoop.execute { connectionOnLoop.value.withdraw(call: number) }
            }
        } catch {
            // An error in answer leaves a connection that can be used.
            if let error = error as? InterlockError, error.isAnswer { keep(connection) } else { connection.close() }
            try Task.checkCancellation()
            throw error
        }
    }

    /// Comes back to the event loop: what a cancellation handler encloses may run elsewhere.
    private func perform<Call: SidecarCall>(
        _ call: Call, on connection: NIOLoopBound<OwnConnection>
    ) async throws -> Call.Reply {
        try await withCheckedThrowingContinuation { continuation in
            connection.value.send(call) { continuation.resume(with: $0) }
        }
    }

    /// A connection that is closed with this client.
    func makeOwnConnection() throws(InterlockError) -> OwnConnection {
        guard !isClosed else { throw closed }
        let connection = OwnConnection(configuration, eventLoop: eventLoop, logger: logger)
        let id = ObjectIdentifier(connection)
        ownConnections[id] = connection
        connection.onClose = { [weak self] in
            self?.assumeIsolated { client in
                client.ownConnections[id] = nil
                client.idle.removeAll { ObjectIdentifier($0) == id }
            }
        }
        return connection
    }

    private func keep(_ connection: OwnConnection) {
        guard !connection.isClosed else { return }
        guard idle.count < Self.mostIdle else {
            connection.close()
            return
        }
        connection.expire(after: Self.idleTime)
        idle.append(connection)
    }
}
