package import Logging
package import NIOCore

/// One connection that many callers share. Commands are pipelined: those of one tick of the event loop are sent in one
/// write, and replies are delivered in order.
///
/// Confined to its event loop: every member must be called on it. Other callers use `RedisClient`.
///
/// A command is sent at most once. Without a connection it fails immediately with `notConnected`. If the connection is
/// lost after the command was sent, it fails with `replyLost` or `timedOut`, and the caller must find out whether it
/// ran.
package final class RedisPipeline: RedisSender {
    /// The server's address in the configuration.
    package let address: RedisConfiguration.Address
    /// The name that the server's certificate is checked against; `nil` to check its address.
    let serverName: String?
    private let link: RedisLink

    /// Called when a connection is up and logged in: the first one, and each one after a loss.
    package var onUp: ((RedisPipeline) -> Void)?
    /// Called when the connection is lost or an attempt fails, with the next attempt already scheduled.
    package var onDown: ((RedisError) -> Void)?
    /// Called once per read from the wire with the round-trip time of the oldest command that it answers.
    package var onRoundTrip: ((TimeAmount) -> Void)?
    /// The last failure since a connection was up; `nil` if nothing has failed since.
    package private(set) var lastFailure: RedisError?
    /// The last refusal to serve (such as `OOM` or `NOPERM`); `nil` if Redis has refused nothing for ten seconds.
    package var recentRefusal: RedisError? {
        lastRefusal.flatMap { eventLoop.now - $0.at < Self.refusalLifetime ? $0.error : nil }
    }
    private var lastRefusal: (error: RedisError, at: NIODeadline)?
    /// The number of refusals to serve since the start.
    package private(set) var refusalCount: Int64 = 0
    private static let refusalLifetime = TimeAmount.seconds(10)
    private let eventLoop: any EventLoop
    /// The number of commands sent since the start.
    package var sentCommandCount: Int64 { earlierSentCommandCount + (current?.sentCommandCount ?? 0) }
    /// The number of commands in flight.
    package var pendingCount: Int { current?.pendingCount ?? 0 }
    private var earlierSentCommandCount: Int64 = 0
    private var current: RedisChannelHandler?
    private var check: Scheduled<Void>?

    /// The idle time after which the server is pinged. The ping detects a network that drops all packets before a
    /// caller notices.
    private static let checkInterval = TimeAmount.seconds(5)

    package convenience init(configuration: RedisConfiguration, eventLoop: any EventLoop, logger: Logger) {
        self.init(configuration: configuration, environment: RedisEnvironment(eventLoop: eventLoop, logger: logger))
    }

    package convenience init(configuration: RedisConfiguration, environment: RedisEnvironment) {
        self.init(configuration: configuration, environment: environment, directory: nil)
    }

    /// Creates a pipeline, inactive until `start`.
    /// - Parameter directory: the source of the server's address, which may change; `nil` to use the
    ///   configuration's.
    init(configuration: RedisConfiguration, environment: RedisEnvironment, directory: (any RedisDirectory)?) {
        address = configuration.address
        serverName = configuration.serverName
        eventLoop = environment.eventLoop
        link = RedisLink(configuration: configuration, environment: environment, directory: directory)
        link.onRefusal = { [weak self] error in
            guard let self else { return }
            refusalCount += 1
            lastRefusal = (error, eventLoop.now)
        }
        link.onUp = { [weak self] handler in
            guard let self else { return }
            // Don't count the commands of the login.
            handler.sentCommandCount = 0
            current = handler
            lastFailure = nil
            handler.onRoundTrip = onRoundTrip
            scheduleCheck(of: handler)
            onUp?(self)
        }
        link.onDown = { [weak self] error in
            guard let self else { return }
            earlierSentCommandCount += current?.sentCommandCount ?? 0
            current = nil
            check?.cancel()
            check = nil
            lastFailure = error
            onDown?(error)
        }
    }

    deinit {
        link.closeOnDeinit()
    }

    package var isUp: Bool { link.handler?.isOpen ?? false }
    package var reachesAllKeys: Bool { isUp }
    package func reaches(_ key: String) -> Bool { isUp }
    package var connections: [RedisPipeline] { [self] }
    package var replyingConnection: RedisPipeline? { self }

    /// Connects, and keeps the connection up until `close`.
    package func start() {
        link.start()
    }

    /// Sends `command`. Calls `completion` exactly once, on the event loop, possibly before this method returns.
    package func send<Command: RedisCommand>(
        _ command: Command,
        timeout: TimeAmount? = nil,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        guard let handler = link.handler else { return failUnsent(completion) }
        handler.send(command, timeout: timeout, completion: completion)
    }

    /// Sends a command that is already encoded in `encodedCommand`, and clears `encodedCommand`.
    func send<Command: RedisCommand>(
        _ command: Command, encodedCommand: inout CommandEncoder, timeout: TimeAmount?,
        completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        guard let handler = link.handler else {
            encodedCommand.clear()
            return failUnsent(completion)
        }
        handler.send(command, encodedCommand: &encodedCommand, timeout: timeout, completion: completion)
    }

    /// Sends a command to the node that is importing its hash slot. Sends a script with its source, because `ASKING`
    /// covers only one command, and an attempt with an unknown digest would use it up.
    func sendAsking<Command: RedisCommand>(
        _ command: Command, timeout: TimeAmount?, completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        guard let handler = link.handler else { return failUnsent(completion) }
        // No other command can come between these two, because a tick sends its commands in order.
        handler.send(Asking(), timeout: timeout) { _ in }
        handler.send(source: command, timeout: timeout, completion: completion)
    }

    private func scheduleCheck(of handler: RedisChannelHandler, after minimumPause: TimeAmount = .milliseconds(1)) {
        check?.cancel()
        let pause = max(Self.checkInterval - handler.timeSinceLastRead, minimumPause)
        check = link.eventLoop.assumeIsolated().scheduleTask(in: pause) { [weak self, weak handler] in
            guard let self, let handler else { return }
            guard handler.timeSinceLastRead >= Self.checkInterval else { return scheduleCheck(of: handler) }
            // Without a reply, the exchange closes the connection, as for every command.
            handler.send(Ping()) { [weak self, weak handler] _ in
                guard let self, let handler, handler === current else { return }
                scheduleCheck(of: handler, after: Self.checkInterval)
            }
        }
    }

    /// Discards the estimate of the server's clock, because the server may have taken over keys from another server.
    func invalidateServerTime() { link.handler?.invalidateServerTime() }

    /// Closes the connection permanently and fails pending commands.
    package func close() -> EventLoopFuture<Void> {
        check?.cancel()
        check = nil
        earlierSentCommandCount = sentCommandCount
        current = nil
        return link.close()
    }

    /// Fails a command that is not sent. Not inlined, so that callers fetch the metadata of the generic result type
    /// only on this path.
    @inline(never)
    private func failUnsent<Reply>(_ completion: (Result<Reply, RedisError>) -> Void) {
        completion(.failure(RedisError(.notConnected, lastFailure?.message ?? "Redis is not connected yet")))
    }
}
