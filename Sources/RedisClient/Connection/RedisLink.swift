internal import Logging
internal import NIOCore

/// Keeps one connection to Redis up: connects, logs in, selects the database, and begins again with jittered exponential
/// backoff when it is lost; at once when its directory names another server. Confined to its event loop.
final class RedisLink {
    private enum State {
        case idle
        /// Until the directory knows where to.
        case waiting
        case connecting(RedisChannelHandler)
        case up(RedisChannelHandler, since: NIODeadline)
        /// Until the pause before the next attempt is over.
        case pausing(Scheduled<Void>)
        case closed
    }

    private let configuration: RedisConfiguration
    private let environment: RedisEnvironment
    private let directory: (any RedisDirectory)?
    /// The configuration, with the address that the last attempt went to.
    private var server: RedisConfiguration
    /// The time of the last attempt, and the run ID that the server reported.
    private var dialedAt = NIODeadline.uptimeNanoseconds(0)
    private var runID: String?
    private var state = State.idle
    /// How many channels are open or being dialled, given up ones among them.
    private var channels = 0
    /// The connection that is ending makes room for one to another server, without a pause.
    private var isMoving = false
    private var backoff: Backoff
    /// Until then it is not said again that Redis refuses commands.
    private var nextComplaint = NIODeadline.uptimeNanoseconds(0)
    /// Completed once the last channel is gone after `close`.
    private var closePromise: EventLoopPromise<Void>?

    /// A connection is up and logged in.
    var onUp: ((RedisChannelHandler) -> Void)?
    /// The server is there, and refuses a command for a reason that is its own.
    var onRefusal: ((RedisError) -> Void)?
    /// The connection was lost, or an attempt failed; another follows unless the link was closed.
    var onDown: ((RedisError) -> Void)?

    /// - Parameter directory: names the server; `nil`: it is the configuration's.
    init(configuration: RedisConfiguration, environment: RedisEnvironment, directory: (any RedisDirectory)? = nil) {
        self.configuration = configuration
        self.environment = environment
        self.directory = directory
        server = configuration
        backoff = Backoff(range: configuration.reconnectDelay)
    }

    var eventLoop: any EventLoop { environment.eventLoop }

    /// The connection, while it is up.
    var handler: RedisChannelHandler? {
        if case .up(let handler, _) = state { handler } else { nil }
    }

    /// Begins to connect; does nothing when it already has.
    func start() {
        guard case .idle = state else { return }
        directory?.add(self)
        connect()
    }

    /// Ends the connection for good.
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

    /// Ends the connection of an owner that goes away without closing it, on whichever thread that happens.
    func closeWhenDropped() {
        // The owner was the only one to use the link, and no longer does: from here on it is the event loop's.
        nonisolated(unsafe) let link = self
        eventLoop.execute { _ = link.close() }
    }

    /// Closed for good, and the last channel is gone: of an attempt that was under way within the connect timeout.
    private func finishClosing() {
        guard case .closed = state, channels == 0 else { return }
        closePromise?.succeed()
    }

    private func connect() {
        server = configuration.current
        dialedAt = eventLoop.now
        runID = nil
        do throws(RedisError) {
            if let directory {
                guard let address = try directory.server() else { return state = .waiting }
                server.address = address
            }
        } catch {
            return attemptFailed(error)
        }
        let deadline = eventLoop.now + TimeAmount(configuration.connectTimeout)
        let handler = RedisChannelHandler(configuration: configuration, eventLoop: eventLoop)
        state = .connecting(handler)
        channels += 1
        environment.dialer.dial(server, on: eventLoop).assumeIsolated().whenComplete { [self] result in
            switch result {
            case .success(let channel): connected(channel, handler: handler, deadline: deadline)
            case .failure(let error as RedisError): ended(handler, because: error)
            case .failure(let error): ended(handler, because: cannotConnect(error))
            }
        }
    }

    private func cannotConnect(_ error: any Error) -> RedisError {
        RedisError(.connectionFailed, NetworkReason(error).sentence(connectingTo: server.displayName))
    }

    private func connected(_ channel: any Channel, handler: RedisChannelHandler, deadline: NIODeadline) {
        do {
            try channel.pipeline.syncOperations.addHandler(handler)
        } catch {
            return ended(handler, because: cannotConnect(error))
        }
        guard isCurrent(handler) else {
            channel.close(promise: nil)
            return ended(handler, because: RedisError(.notConnected, "this attempt was given up"))
        }
        handler.onClose = { [self] in ended(handler, because: $0) }
        login(handler, timeout: deadline - eventLoop.now) { [self] failure in
            if let failure { return handler.close(reason: failure) }
            guard isCurrent(handler) else { return }
            handler.onRefusal = { [self] in refused($0) }
            handler.isLoggingIn = false
            state = .up(handler, since: eventLoop.now)
            // Before anything is sent: other connections may have to leave an outdated server.
            directory?.reached(self, arrival)
            guard isCurrent(handler), handler.isOpen else { return }
            onUp?(handler)
        }
    }

    private var arrival: RedisArrival { RedisArrival(name: server.displayName, runID: runID, dialedAt: dialedAt) }

    /// Whether `handler` is the present attempt's: not of one that was given up.
    private func isCurrent(_ handler: RedisChannelHandler) -> Bool {
        switch state {
        case .connecting(let current), .up(let current, _): current === handler
        case .idle, .waiting, .pausing, .closed: false
        }
    }

    /// A channel is gone, or never came to be.
    private func ended(_ handler: RedisChannelHandler, because error: RedisError) {
        channels -= 1
        guard isCurrent(handler) else { return finishClosing() }
        attemptFailed(error)
    }

    /// Redis is there, and says that it cannot serve, or that this user may not do what is asked: said once a minute at most.
    private func refused(_ error: RedisError) {
        // Whoever sends to a cluster goes where the answer points.
        if configuration.isOfCluster, case .server(let condition) = error.code, condition.isRedirection { return }
        let now = eventLoop.now
        onRefusal?(error)
        guard now >= nextComplaint else { return }
        nextComplaint = now + .minutes(1)
        environment.logger.log(.refused, ["redis": server.displayName, "error": error.message])
    }

    /// Sends `AUTH`, `SELECT`, `CLIENT SETNAME`, the commands of `PeerCheck`, `ROLE` with Sentinels, `PING`, and `TIME`
    /// where wanted, all in one write. Reports the first failure except those of the name and the time. A peer of
    /// another kind takes precedence.
    private func login(
        _ handler: RedisChannelHandler, timeout: TimeAmount, completion: @escaping (RedisError?) -> Void
    ) {
        handler.isLoggingIn = true
        var failure: RedisError?
        func note<Reply>(_ result: Result<Reply, RedisError>) {
            guard failure == nil, case .failure(let error) = result else { return }
            failure = RedisError(.connectionFailed, "\(server.displayName) refused the login: \(error.message)")
            if case .server = error.code { failure?.code = error.code }
            if error.code == .timedOut, server.tls != nil, !handler.hasRead {
                let patience = TimeAmount(configuration.connectTimeout).nanoseconds / 1_000_000
                failure?.message = "no answer over TLS within \(patience) ms: does \(server.displayName) speak TLS?"
            }
        }
        if let password = server.password {
            handler.send(Auth(username: server.username, password: password), timeout: timeout) { note($0) }
        }
        if configuration.database != 0 {
            handler.send(Select(database: configuration.database), timeout: timeout) { note($0) }
        }
        if let name = configuration.clientName { handler.send(SetClientName(name: name), timeout: timeout) { _ in } }
        var check = PeerCheck()
        check.refusesReplicas = !configuration.isOfCluster && !(directory?.asksForRole ?? false)
        if let key = configuration.peerCheckKey {
            handler.send(Hello(), timeout: timeout) { check.hello = (try? $0.get()) ?? [:] }
            if directory != nil {
                handler.send(Info(section: "server"), timeout: timeout) { [self] result in
                    check.info = (try? result.get()) ?? [:]
                    if isCurrent(handler) { runID = check.runID }
                }
            }
            // Send the source first, so that the server knows the digest.
            func noteScript(_ result: Result<Void, RedisError>) {
                if check.scriptFailure == nil, case .failure(let error) = result { check.scriptFailure = error }
            }
            // A proxy needs a key to route by, and a server of a cluster owns only some keys.
            let script = LeastScript(key: configuration.isOfCluster ? nil : key)
            handler.send(source: script, timeout: timeout) { noteScript($0) }
            handler.send(script, timeout: timeout) { noteScript($0) }
        }
        if directory?.asksForRole ?? false {
            // A server that was the primary may still be named by whoever has not heard.
            handler.send(ServerRole(), timeout: timeout) { [self] result in
                note(result)
                guard failure == nil, case .success(let role) = result, role != ServerRole.primary else { return }
                failure = RedisError(.connectionFailed, "\(server.displayName) is no primary; its role is \(role)")
            }
        }
        handler.send(Ping(), timeout: timeout) { [self] result in
            note(result)
            guard configuration.peerCheckKey != nil else { return completion(failure) }
            let name = server.displayName
            completion(check.otherPeer(at: name) ?? failure ?? check.failure(at: name))
        }
        // Without an answer scripts look for themselves.
        if configuration.knowsTimeAfter != nil { handler.lookAtClock(timeout: timeout) }
    }

    private func attemptFailed(_ error: RedisError) {
        var error = error
        switch state {
        case .closed:
            return
        case .connecting:
            // Whatever ended a connection that was never up: it was not established. A peer that is something else says so.
            switch error.code {
            case .server, .protocolViolation: break
            default: error.code = .connectionFailed
            }
        case .up(_, let since):
            // A login alone proves nothing: a replica takes it, and refuses the first write.
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
        directory?.lost(self, because: error, at: arrival)
    }
}

extension RedisLink: RedisDirectoryFollower {
    var isSettled: Bool {
        switch state {
        case .up(let handler, _): handler.isOpen
        case .idle, .closed: true
        case .waiting, .connecting, .pausing: false
        }
    }

    func leave(because reason: RedisError) {
        backoff.reset()
        switch state {
        case .up(let handler, _):
            isMoving = true
            handler.close(reason: reason)
        case .connecting(let handler):
            connect()
            handler.close(reason: reason)
        case .waiting, .pausing:
            dialAgain()
        case .idle, .closed:
            break
        }
    }

    func dialAgain() {
        if case .pausing(let attempt) = state { attempt.cancel() }
        switch state {
        case .waiting, .pausing: connect()
        case .idle, .connecting, .up, .closed: break
        }
    }
}

/// Exponential backoff with full jitter: attempt n waits a random time up to `shortest · 2ⁿ`, at most `longest`, so that
/// a fleet that lost its Redis does not come back as one.
///
/// Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
package struct Backoff {
    package let range: ClosedRange<Duration>
    package private(set) var failures = 0

    package init(range: ClosedRange<Duration>) {
        self.range = range
    }

    /// The pause before the next attempt. `random` is in 0…1.
    package mutating func next(random: Double) -> Duration {
        let ceiling = min(range.upperBound, range.lowerBound * (1 << min(failures, 20)))
        failures += 1
        return max(range.lowerBound / 2, ceiling * random)
    }

    package mutating func reset() {
        failures = 0
    }
}
