internal import Logging
internal import NIOCore

/// Keeps one connection to Redis up: connects, logs in and selects the database. Reconnects with jittered exponential
/// backoff, or immediately if its directory names another server. Confined to its event loop.
final class RedisLink {
    private enum State {
        case idle
        /// The directory does not know the address yet.
        case waiting
        case connecting(RedisChannelHandler)
        case up(RedisChannelHandler, since: NIODeadline)
        /// The pause before the next attempt has not ended.
        case pausing(Scheduled<Void>)
        case closed
    }

    private let configuration: RedisConfiguration
    private let environment: RedisEnvironment
    private let directory: (any RedisDirectory)?
    /// The configuration with the address of the last attempt.
    private var server: RedisConfiguration
    /// The time of the last attempt.
    private var dialedAt = NIODeadline.uptimeNanoseconds(0)
    /// The run ID that the server reported at the last attempt; `nil` if it reported none yet.
    private var runID: String?
    private var state = State.idle
    /// The number of channels that are open or being dialed. Abandoned attempts count too.
    private var openChannelCount = 0
    /// Whether the connection closes only to reconnect to another server without a pause.
    private var isMoving = false
    private var backoff: Backoff
    /// The earliest time for the next log entry about refused commands.
    private var nextRefusalLogAt = NIODeadline.uptimeNanoseconds(0)
    /// Completed once the last channel has closed after `close`.
    private var closePromise: EventLoopPromise<Void>?

    /// Called when a connection is up and logged in.
    var onUp: ((RedisChannelHandler) -> Void)?
    /// Called when a reachable server refuses a command because it cannot serve or the user lacks a permission.
    var onRefusal: ((RedisError) -> Void)?
    /// Called when the connection ends or an attempt fails. Another attempt follows unless the link is closed.
    var onDown: ((RedisError) -> Void)?

    /// Creates a link, inactive until `start`.
    /// - Parameter directory: the source of the server's address; `nil` to use the configuration's.
    init(configuration: RedisConfiguration, environment: RedisEnvironment, directory: (any RedisDirectory)? = nil) {
        self.configuration = configuration
        self.environment = environment
        self.directory = directory
        server = configuration
        backoff = Backoff(range: configuration.reconnectDelay)
    }

    var eventLoop: any EventLoop { environment.eventLoop }

    /// The handler of the connection while it is up; otherwise `nil`.
    var handler: RedisChannelHandler? {
        if case .up(let handler, _) = state { handler } else { nil }
    }

    /// Starts to connect. Has no effect after the first call.
    func start() {
        guard case .idle = state else { return }
        directory?.add(self)
        connect()
    }

    /// Closes the connection permanently.
    func close() -> EventLoopFuture<Void> {
        let promise = closePromise ?? eventLoop.makePromise(of: Void.self)
        guard closePromise == nil else { return promise.futureResult }
        closePromise = promise
        directory?.remove(self)
        let previous = state
        state = .closed
        switch previous {
        case .up(let handler, _), .connecting(let handler):
            handler.close(reason: RedisError(.notConnected, "this client was closed"))
        case .pausing(let attempt):
            attempt.cancel()
        case .idle, .waiting, .closed:
            break
        }
        finishClosing()
        return promise.futureResult
    }

    /// Closes the connection from the `deinit` of its owner, which may run on any thread.
    func closeOnDeinit() {
        // Safe because the owner was the only user of the link, so that only this closure refers to it now.
        nonisolated(unsafe) let link = self
        eventLoop.execute { _ = link.close() }
    }

    /// Completes `close` once the last channel has closed. An attempt in progress ends within the connect timeout.
    private func finishClosing() {
        guard case .closed = state, openChannelCount == 0 else { return }
        closePromise?.succeed()
    }

    private func connect() {
        server = configuration.withLatestSecrets
        dialedAt = eventLoop.now
        runID = nil
        do throws(RedisError) {
            if let directory {
                guard let address = try directory.serverAddress() else { return state = .waiting }
                server.address = address
            }
        } catch {
            return attemptFailed(error)
        }
        let deadline = eventLoop.now + TimeAmount(configuration.connectTimeout)
        let handler = RedisChannelHandler(configuration: configuration, eventLoop: eventLoop)
        state = .connecting(handler)
        openChannelCount += 1
        environment.dialer.dial(server, on: eventLoop).assumeIsolated().whenComplete { [self] result in
            switch result {
            case .success(let channel): channelOpened(channel, handler: handler, deadline: deadline)
            case .failure(let error as RedisError): channelClosed(handler, because: error)
            case .failure(let error): channelClosed(handler, because: connectError(error))
            }
        }
    }

    private func connectError(_ error: any Error) -> RedisError {
        RedisError(.connectionFailed, NetworkReason(error).sentence(connectingTo: server.displayName))
    }

    private func channelOpened(_ channel: any Channel, handler: RedisChannelHandler, deadline: NIODeadline) {
        do {
            try channel.pipeline.syncOperations.addHandler(handler)
        } catch {
            return channelClosed(handler, because: connectError(error))
        }
        guard isCurrent(handler) else {
            channel.close(promise: nil)
            return channelClosed(handler, because: RedisError(.notConnected, "this attempt was abandoned"))
        }
        handler.onClose = { [self] in channelClosed(handler, because: $0) }
        login(handler, timeout: deadline - eventLoop.now) { [self] failure in
            if let failure { return handler.close(reason: failure) }
            guard isCurrent(handler) else { return }
            handler.onRefusal = { [self] in commandRefused($0) }
            handler.isLoggingIn = false
            state = .up(handler, since: eventLoop.now)
            // Notify the directory before the first command, because other connections may have to leave an outdated
            // server.
            directory?.connectionEstablished(self, dialedServer)
            guard isCurrent(handler), handler.isOpen else { return }
            onUp?(handler)
        }
    }

    private var dialedServer: DialedServer { DialedServer(name: server.displayName, runID: runID, dialedAt: dialedAt) }

    /// Returns whether `handler` belongs to the current attempt, not to an abandoned one.
    private func isCurrent(_ handler: RedisChannelHandler) -> Bool {
        switch state {
        case .connecting(let current), .up(let current, _): current === handler
        case .idle, .waiting, .pausing, .closed: false
        }
    }

    /// Handles a channel that was closed or could not be opened.
    private func channelClosed(_ handler: RedisChannelHandler, because error: RedisError) {
        openChannelCount -= 1
        guard isCurrent(handler) else { return finishClosing() }
        attemptFailed(error)
    }

    /// Records that Redis cannot serve or that this user lacks a permission. Logs at most one refusal per minute.
    private func commandRefused(_ error: RedisError) {
        // `ClusterPipeline` follows the redirections of a cluster.
        if configuration.isOfCluster, case .server(let condition) = error.code, condition.isRedirection { return }
        let now = eventLoop.now
        onRefusal?(error)
        guard now >= nextRefusalLogAt else { return }
        nextRefusalLogAt = now + .minutes(1)
        environment.logger.log(.refused, ["redis": server.displayName, "error": error.message])
    }

    /// Logs in with all commands in one write: `AUTH`, `SELECT`, `CLIENT SETNAME`, the commands of `PeerCheck`, `ROLE`
    /// with Sentinels, `PING`, and `TIME` if configured.
    /// - Parameter completion: called with the first failure, except those of `CLIENT SETNAME` and `TIME`; `nil` if the
    ///   login succeeded. If the peer is not a Redis server, that is the failure.
    private func login(
        _ handler: RedisChannelHandler, timeout: TimeAmount, completion: @escaping (RedisError?) -> Void
    ) {
        handler.isLoggingIn = true
        var failure: RedisError?
        func recordFailure<Reply>(_ result: Result<Reply, RedisError>) {
            guard failure == nil, case .failure(let error) = result else { return }
            failure = RedisError(.connectionFailed, "\(server.displayName) refused the login: \(error.message)")
            if case .server = error.code { failure?.code = error.code }
            guard error.code == .timedOut else { return }
            let timeoutMilliseconds = TimeAmount(configuration.connectTimeout).nanoseconds / 1_000_000
            failure?.message =
                server.tls != nil && !handler.hasCompletedHandshake
                ? "no TLS handshake within \(timeoutMilliseconds) ms: does \(server.displayName) speak TLS?"
                : "\(server.displayName) did not answer the login within \(timeoutMilliseconds) ms"
        }
        if let password = server.password {
            handler.send(Auth(username: server.username, password: password), timeout: timeout) { recordFailure($0) }
        }
        if configuration.database != 0 {
            handler.send(Select(database: configuration.database), timeout: timeout) { recordFailure($0) }
        }
        if let name = configuration.clientName { handler.send(SetClientName(name: name), timeout: timeout) { _ in } }
        var check = PeerCheck()
        check.refusesReplicas = !configuration.isOfCluster && !(directory?.checksRole ?? false)
        if let key = configuration.peerCheckKey {
            handler.send(Hello(), timeout: timeout) { check.hello = (try? $0.get()) ?? [:] }
            if directory != nil {
                handler.send(Info(section: "server"), timeout: timeout) { [self] result in
                    check.info = (try? result.get()) ?? [:]
                    if isCurrent(handler) { runID = check.runID }
                }
            }
            // Send the source first, so that the server knows the digest.
            func recordScriptFailure(_ result: Result<Void, RedisError>) {
                if check.scriptFailure == nil, case .failure(let error) = result { check.scriptFailure = error }
            }
            // A proxy needs a key for routing, but a server of a cluster serves only some keys.
            let script = ProbeScript(key: configuration.isOfCluster ? nil : key)
            handler.send(source: script, timeout: timeout) { recordScriptFailure($0) }
            handler.send(script, timeout: timeout) { recordScriptFailure($0) }
        }
        if directory?.checksRole ?? false {
            // A Sentinel that has not learned of a failover may still name the former primary.
            handler.send(ServerRole(), timeout: timeout) { [self] result in
                recordFailure(result)
                guard failure == nil, case .success(let role) = result, role != ServerRole.primary else { return }
                failure = RedisError(.connectionFailed, "\(server.displayName) is not a primary; its role is \(role)")
            }
        }
        handler.send(Ping(), timeout: timeout) { [self] result in
            recordFailure(result)
            guard configuration.peerCheckKey != nil else { return completion(failure) }
            let name = server.displayName
            completion(check.identityFailure(at: name) ?? failure ?? check.failure(at: name))
        }
        // If this fails, scripts read the clock themselves.
        if configuration.serverTimeDelay != nil { handler.readClock(timeout: timeout) }
    }

    private func attemptFailed(_ error: RedisError) {
        var error = error
        switch state {
        case .closed:
            return
        case .connecting:
            // No connection was established. Errors that identify the peer or its state keep their code.
            switch error.code {
            case .server, .protocolViolation: break
            default: error.code = .connectionFailed
            }
        case .up(_, let since):
            // A successful login does not reset the backoff, because a replica accepts it and rejects the first write.
            if eventLoop.now - since >= TimeAmount(configuration.reconnectDelay.upperBound) { backoff.reset() }
        case .idle, .waiting, .pausing:
            break
        }
        var random = environment.random
        let pause = isMoving ? .zero : backoff.next(random: .random(in: 0...1, using: &random))
        isMoving = false
        environment.logger.log(.retried, ["redis": server.displayName, "error": "\(error)", "pause": "\(pause)"])
        let attempt = eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(pause)) { [self] in
            guard case .pausing = state else { return }
            connect()
        }
        state = .pausing(attempt)
        onDown?(error)
        directory?.connectionLost(self, because: error, at: dialedServer)
    }
}

extension RedisLink: RedisDirectoryFollower {
    var isUpOrIdle: Bool {
        switch state {
        case .up(let handler, _): handler.isOpen
        case .idle, .closed: true
        case .waiting, .connecting, .pausing: false
        }
    }

    func reconnect(because reason: RedisError) {
        backoff.reset()
        switch state {
        case .up(let handler, _):
            isMoving = true
            handler.close(reason: reason)
        case .connecting(let handler):
            connect()
            handler.close(reason: reason)
        case .waiting, .pausing:
            redial()
        case .idle, .closed:
            break
        }
    }

    func redial() {
        if case .pausing(let attempt) = state { attempt.cancel() }
        switch state {
        case .waiting, .pausing: connect()
        case .idle, .connecting, .up, .closed: break
        }
    }
}

/// Exponential backoff with full jitter: attempt n waits a random time up to `lowerBound · 2ⁿ`, at most `upperBound`,
/// and at least half of `lowerBound`. Spreads the attempts of a fleet whose Redis is down.
///
/// Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
package struct Backoff {
    package let range: ClosedRange<Duration>
    package private(set) var failureCount = 0

    package init(range: ClosedRange<Duration>) {
        self.range = range
    }

    /// Returns the pause before the next attempt.
    /// - Parameter random: a random number in 0…1.
    package mutating func next(random: Double) -> Duration {
        let ceiling = min(range.upperBound, range.lowerBound * (1 << min(failureCount, 20)))
        failureCount += 1
        return max(range.lowerBound / 2, ceiling * random)
    }

    package mutating func reset() {
        failureCount = 0
    }
}
