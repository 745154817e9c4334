package import NIOCore

/// One connection to each primary of a cluster. Sends each command to the primary that serves the hash slot of its key.
/// Retries a command that no server has run: at another server after a redirection, or a little later if its slot is
/// migrating or unassigned. Confined to its event loop.
///
/// Runs a command at most once, like `RedisPipeline`: it retries only a command that a server refused, and only within
/// the timeout. If several commands wait for a hash slot, one of them probes it, and the others follow once the probe
/// is answered.
///
/// Source: "Redis Cluster specification", sections "MOVED Redirection", "ASK Redirection" and "Multi-key Operations".
package final class ClusterPipeline: RedisSender {
    private typealias Address = RedisConfiguration.Address

    private let configuration: RedisConfiguration
    private let environment: RedisEnvironment
    private let directory: ClusterDirectory
    private var servers: [Address: RedisPipeline] = [:]
    /// The connections to the primaries, in the order of the slot map.
    private var primaries: [RedisPipeline] = []
    /// The servers that import a hash slot and are not primaries in the slot map, each with the time of its last
    /// command.
    private var temporaryServers: [Address: NIODeadline] = [:]
    /// The commands that wait until a temporary server is connected.
    private var callsAwaitingConnection: [Address: [any ClusterCall]] = [:]
    /// The commands that wait for a hash slot that is migrating or unassigned.
    private var stalled: [HashSlot?: CallQueue] = [:]
    /// The command and refusal counts of retired servers.
    private var retiredSentCommandCount: Int64 = 0
    private var retiredRefusalCount: Int64 = 0
    private var encoder = CommandEncoder()
    /// The number of commands that wait for a retry.
    private var postponedCount = 0
    private var isSweepScheduled = false
    private var isClosed = false

    package var onUp: ((RedisPipeline) -> Void)?
    package var onDown: ((RedisError) -> Void)?
    package var onRoundTrip: ((TimeAmount) -> Void)?
    package private(set) var replyingConnection: RedisPipeline?

    /// The pause between two probes of a hash slot. It doubles from the lower to the upper bound.
    private static let pauseRange = TimeAmount.milliseconds(1)...TimeAmount.milliseconds(16)
    /// The number of `MOVED` redirections that a command follows without a pause.
    private static let immediateRedirections = 3
    /// The minimum time for a retry is the command timeout divided by this number. With less time the retry might get
    /// no reply, and the caller would no longer know that the command was not run.
    private static let retryTimeDivisor: Int64 = 10
    /// How long a temporary server is kept after its last command.
    private static let temporaryServerLifetime = TimeAmount.seconds(10)

    private let reportsServers: Bool

    /// Creates the connections, inactive until `start`.
    /// - Parameter reportsServers: whether the directory may query the slot map over these connections.
    init(
        configuration: RedisConfiguration, environment: RedisEnvironment, directory: ClusterDirectory, reportsServers: Bool
    ) {
        self.reportsServers = reportsServers
        self.configuration = configuration
        self.environment = environment
        self.directory = directory
    }

    package func start() { directory.add(self) }

    package func close() -> EventLoopFuture<Void> {
        isClosed = true
        let waitingCalls = stalled.values.flatMap(\.calls) + callsAwaitingConnection.values.joined()
        stalled = [:]
        callsAwaitingConnection = [:]
        for call in waitingCalls { retry(call) }
        return .andAllComplete(servers.values.map { $0.close() }, on: environment.eventLoop)
    }

    package func drain(then done: @escaping () -> Void) {
        let deadline = environment.eventLoop.now + standardTimeout
        func drainOnceSent() {
            // Waiting commands fail at their own deadlines.
            let isLate = environment.eventLoop.now >= deadline
            guard postponedCount > 0, !isLate else {
                let connections = servers.sorted { $0.key.description < $1.key.description }.map(\.value)
                // A server may have refused a command in flight, which then waits for a retry.
                return RedisPipeline.drain(connections) { [self] in
                    if postponedCount > 0, !isLate { drainOnceSent() } else { done() }
                }
            }
            environment.eventLoop.assumeIsolated().scheduleTask(in: Self.pauseRange.upperBound) { drainOnceSent() }
        }
        drainOnceSent()
    }

    // MARK: State

    package var connections: [RedisPipeline] { primaries }
    package var isUp: Bool { primaries.contains(where: \.isUp) }
    package var reachesAllKeys: Bool { !primaries.isEmpty && primaries.allSatisfy(\.isUp) }
    package func reaches(_ key: String) -> Bool { primary(of: HashSlot(ofKey: key))?.isUp ?? false }
    package var recentRefusal: RedisError? { servers.values.lazy.compactMap(\.recentRefusal).first }
    package var refusalCount: Int64 { servers.values.reduce(retiredRefusalCount) { $0 + $1.refusalCount } }
    package var sentCommandCount: Int64 { servers.values.reduce(retiredSentCommandCount) { $0 + $1.sentCommandCount } }
    package var pendingCount: Int { servers.values.reduce(postponedCount) { $0 + $1.pendingCount } }

    package var lastFailure: RedisError? {
        guard directory.view.isKnown else { return directory.failure }
        return primaries.first { !$0.isUp && $0.lastFailure != nil }.map { failure(of: $0) }
    }

    private static let unknown = RedisError(.notConnected, "the servers of the cluster are not known yet")

    private func failure(of server: RedisPipeline) -> RedisError {
        RedisError(.notConnected, "\(server.address): \(server.lastFailure?.message ?? "not connected yet")")
    }

    private func primary(of slot: HashSlot) -> RedisPipeline? {
        guard let index = directory.view.index(of: slot), primaries.indices.contains(index) else { return nil }
        return primaries[index]
    }

    // MARK: Sending

    package func send<Command: RedisCommand>(
        _ command: Command, timeout: TimeAmount?, completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        let (slot, sentAt) = encode(command)
        func call() -> Call<Command.Reply> {
            Call(slot: slot, deadline: sentAt + (timeout ?? standardTimeout), completion: completion) {
                server, isAsking, remaining, done in
                if isAsking {
                    server.sendAsking(command, timeout: remaining, completion: done)
                } else {
                    server.send(command, timeout: remaining, completion: done)
                }
            }
        }
        guard let server = server(for: slot), server.isUp else {
            encoder.clear()
            retry(call())
            return
        }
        withEncodedCommand { encodedCommand in
            server.send(command, encodedCommand: &encodedCommand, timeout: timeout) { [self] result in
                guard let redirection = redirection(in: result, by: server) else {
                    return deliver(result, by: server, to: completion)
                }
                follow(redirection, call())
            }
        }
    }

    /// Encodes a command once and computes its hash slot.
    private func encode(_ command: some RedisCommand) -> (slot: HashSlot?, sentAt: NIODeadline) {
        command.encode(into: &encoder)
        return (command.firstKeyIndex.map { encoder.slot(ofArgument: $0) }, environment.eventLoop.now)
    }

    /// Lends the encoded command to `body`, so that a completion that sends another command can use the encoder.
    private func withEncodedCommand(_ body: (inout CommandEncoder) -> Void) {
        var encodedCommand = encoder
        encoder = CommandEncoder()
        body(&encodedCommand)
        encoder = encodedCommand
    }

    private var standardTimeout: TimeAmount { TimeAmount(configuration.commandTimeout) }
    private var minimumAttemptTime: TimeAmount { .nanoseconds(standardTimeout.nanoseconds / Self.retryTimeDivisor) }

    /// Returns the server that serves the hash slot, or any server if `slot` is `nil`. Returns `nil` if no such
    /// server is known yet.
    private func server(for slot: HashSlot?) -> RedisPipeline? {
        if let slot { primary(of: slot) } else { primaries.first(where: \.isUp) ?? primaries.first }
    }

    private func deliver<Reply>(
        _ result: Result<Reply, RedisError>, by server: RedisPipeline, to completion: (Result<Reply, RedisError>) -> Void
    ) {
        if case .failure(let error) = result, error.isOutcomeUnknown { directory.scheduleQuery() }
        let previousConnection = replyingConnection
        replyingConnection = server
        completion(result)
        replyingConnection = previousConnection
    }

    // MARK: Retries

    /// A command that the first server did not run.
    private final class Call<Reply>: ClusterCall {
        typealias Completion = (Result<Reply, RedisError>) -> Void

        let slot: HashSlot?
        let deadline: NIODeadline
        let completion: Completion
        let send: (_ to: RedisPipeline, _ isAsking: Bool, _ timeout: TimeAmount, @escaping Completion) -> Void
        var redirectionCount = 0
        var lastRedirection: Redirection?

        init(
            slot: HashSlot?, deadline: NIODeadline, completion: @escaping Completion,
            send: @escaping (RedisPipeline, Bool, TimeAmount, @escaping Completion) -> Void
        ) {
            self.slot = slot
            self.deadline = deadline
            self.completion = completion
            self.send = send
        }

        func fail(_ error: RedisError) { completion(.failure(error)) }

        func attempt(at server: RedisPipeline, isAsking: Bool, timeout: TimeAmount, by pipeline: ClusterPipeline) {
            send(server, isAsking, timeout) { [self] result in
                guard let redirection = pipeline.redirection(in: result, by: server) else {
                    // A reply of the importing server does not show whether the slot's other keys have arrived.
                    if isAsking { pipeline.resumeProbing(slot) } else { pipeline.retryStalledCalls(for: slot) }
                    return pipeline.deliver(result, by: server, to: completion)
                }
                pipeline.follow(redirection, self)
            }
        }
    }

    /// The commands that wait for one hash slot.
    private struct CallQueue {
        var calls: [any ClusterCall] = []
        var pause = ClusterPipeline.pauseRange.lowerBound
        /// Whether one of the commands is in flight to probe the hash slot.
        var isProbing = false
    }

    private func redirection<Reply>(in result: Result<Reply, RedisError>, by server: RedisPipeline) -> Redirection? {
        guard case .failure(let error) = result else { return nil }
        return Redirection(error, sender: server.address)
    }

    private func follow(_ redirection: Redirection, _ call: any ClusterCall) {
        call.lastRedirection = redirection
        switch redirection {
        case .moved(let slot, let address):
            directory.recordMove(slot, to: address)
            servers[address]?.invalidateServerTime()
            call.redirectionCount += 1
            if call.redirectionCount <= Self.immediateRedirections { retry(call) } else { postpone(call) }
        case .ask(let address):
            directory.scheduleQuery()
            let temporaryConnection = openTemporaryConnection(at: address)
            if temporaryConnection.isUp {
                attempt(call, at: temporaryConnection, isAsking: true)
            } else if temporaryConnection.lastFailure != nil {
                postpone(call)
            } else {
                enqueue(call, until: temporaryConnection)
            }
        case .tryAgain, .down:
            directory.scheduleQuery()
            postpone(call)
        }
    }

    private func admit(_ call: any ClusterCall) -> Bool {
        guard postponedCount < configuration.maximumPending else {
            call.fail(RedisError(.overloaded, "\(postponedCount) commands already wait for the cluster"))
            return false
        }
        postponedCount += 1
        return true
    }

    /// Queues a command behind those that already wait for its hash slot.
    private func postpone(_ call: any ClusterCall) {
        guard admit(call) else { return }
        var queue = stalled[call.slot] ?? CallQueue()
        queue.calls.append(call)
        let isFirst = queue.calls.count == 1 || queue.isProbing
        queue.isProbing = false
        stalled[call.slot] = queue
        if isFirst { scheduleAttempt(for: call.slot) }
    }

    private func scheduleAttempt(for slot: HashSlot?) {
        guard let pause = stalled[slot]?.pause else { return }
        var random = environment.random
        let jitteredPause = TimeAmount.nanoseconds(
            Int64.random(in: pause.nanoseconds / 2...pause.nanoseconds, using: &random))
        environment.eventLoop.assumeIsolated().scheduleTask(in: jitteredPause) { [self] in attemptFirst(of: slot) }
    }

    /// Fails the queued commands with too little time for a retry, and sends the first of the others to probe the hash
    /// slot.
    private func attemptFirst(of slot: HashSlot?) {
        guard var queue = stalled[slot] else { return }
        let earliestDeadline = environment.eventLoop.now + minimumAttemptTime
        let expired = queue.calls.filter { $0.deadline <= earliestDeadline }
        queue.calls.removeAll { $0.deadline <= earliestDeadline }
        queue.pause = min(Self.pauseRange.upperBound, queue.pause * 2)
        let first = queue.calls.isEmpty ? nil : queue.calls.removeFirst()
        queue.isProbing = first != nil
        stalled[slot] = queue.calls.isEmpty && first == nil ? nil : queue
        postponedCount -= expired.count + (first == nil ? 0 : 1)
        for call in expired { call.fail(timeoutError(for: call)) }
        guard let first else { return }
        // If the probe failed immediately, the other commands fail the same way.
        guard retry(first) else { return retryStalledCalls(for: slot) }
        guard stalled[slot]?.isProbing ?? false else { return }
        environment.eventLoop.assumeIsolated().scheduleTask(in: Self.pauseRange.upperBound * 8) { [self] in resumeProbing(slot) }
    }

    /// Schedules the next probe if the last one was inconclusive.
    private func resumeProbing(_ slot: HashSlot?) {
        guard stalled[slot]?.isProbing ?? false else { return }
        stalled[slot]?.isProbing = false
        scheduleAttempt(for: slot)
    }

    /// Retries every command that waits for a hash slot.
    private func retryStalledCalls(for slot: HashSlot?) {
        guard let queue = stalled.removeValue(forKey: slot) else { return }
        postponedCount -= queue.calls.count
        for call in queue.calls { retry(call) }
    }

    /// Queues a command until the server that imports its hash slot is connected or the attempt fails.
    private func enqueue(_ call: any ClusterCall, until connection: RedisPipeline) {
        guard admit(call) else { return }
        callsAwaitingConnection[connection.address, default: []].append(call)
    }

    private func retryCalls(awaiting address: Address) {
        guard let calls = callsAwaitingConnection.removeValue(forKey: address) else { return }
        postponedCount -= calls.count
        for call in calls { retry(call) }
    }

    /// Sends a command to the server that serves its hash slot now, or postpones it.
    /// - Returns: `false` if the command failed immediately.
    @discardableResult
    private func retry(_ call: any ClusterCall) -> Bool {
        func fail(_ error: RedisError) -> Bool {
            call.fail(error)
            return false
        }
        guard !isClosed else { return fail(RedisError(.notConnected, "this client was closed")) }
        guard let server = server(for: call.slot) else {
            guard directory.failure == nil else { return fail(lastFailure ?? Self.unknown) }
            directory.scheduleQuery()
            postpone(call)
            return true
        }
        if server.isUp {
            attempt(call, at: server, isAsking: false)
        } else if server.lastFailure != nil {
            return fail(failure(of: server))
        } else {
            // A server that has not failed yet may be up in a moment.
            postpone(call)
        }
        return true
    }

    private func attempt(_ call: any ClusterCall, at server: RedisPipeline, isAsking: Bool) {
        let remaining = call.deadline - environment.eventLoop.now
        guard remaining >= minimumAttemptTime else { return call.fail(timeoutError(for: call)) }
        call.attempt(at: server, isAsking: isAsking, timeout: remaining, by: self)
    }

    private func timeoutError(for call: any ClusterCall) -> RedisError {
        let slot = call.slot.map { "hash slot \($0)" } ?? "the hash slot"
        return switch call.lastRedirection {
        case .tryAgain, .ask:
            RedisError(.server(.tryAgain), "\(slot) is moving to another server of the cluster and did not arrive in time")
        case .moved:
            RedisError(.server(.moved), "the servers of the cluster do not agree on which of them serves \(slot)")
        case .down, nil:
            directory.view.isKnown
                ? RedisError(.server(.clusterDown), "no server of the cluster serves \(slot) at present")
                : lastFailure ?? Self.unknown
        }
    }

    // MARK: Servers

    private func open(_ address: Address) -> RedisPipeline {
        let configuration = configuration.server(at: address, of: directory.view)
        if let existing = servers[address] {
            // Reconnect: the server was dialed before its host name was known.
            guard !existing.isUp, existing.serverName != configuration.serverName else { return existing }
            retire(existing)
        }
        let server = RedisPipeline(
            configuration: configuration, environment: environment, directory: directory.directory(of: address))
        servers[address] = server
        server.onUp = { [weak self] server in
            guard let self else { return }
            directory.scheduleQuery()
            if temporaryServers[address] == nil { onUp?(server) }
            retryCalls(awaiting: address)
            directory.followerConnected()
        }
        server.onDown = { [weak self] error in
            guard let self else { return }
            directory.scheduleQuery()
            if temporaryServers[address] == nil { onDown?(error) }
            retryCalls(awaiting: address)
        }
        server.onRoundTrip = { [weak self] in self?.onRoundTrip?($0) }
        server.start()
        return server
    }

    /// Returns the connection to a server that imports a hash slot and may not serve any yet.
    private func openTemporaryConnection(at address: Address) -> RedisPipeline {
        if !directory.view.primaries.contains(address) {
            temporaryServers[address] = environment.eventLoop.now
            scheduleSweep()
        }
        return open(address)
    }

    /// Schedules the removal of temporary servers without a command for `temporaryServerLifetime`.
    private func scheduleSweep() {
        guard !isSweepScheduled else { return }
        isSweepScheduled = true
        environment.eventLoop.assumeIsolated().scheduleTask(in: Self.temporaryServerLifetime) { [weak self] in
            guard let self else { return }
            isSweepScheduled = false
            slotMapChanged()
            if !temporaryServers.isEmpty { scheduleSweep() }
        }
    }

    /// Takes a server out of use. Its connection closes after the command timeout, so that replies to the commands in
    /// flight still arrive.
    private func retire(_ server: RedisPipeline) {
        retiredSentCommandCount += server.sentCommandCount
        retiredRefusalCount += server.refusalCount
        server.onUp = nil
        server.onDown = nil
        retryCalls(awaiting: server.address)
        environment.eventLoop.assumeIsolated().scheduleTask(in: standardTimeout) { _ = server.close() }
    }
}

extension ClusterPipeline: ClusterFollower {
    package var isFullyConnected: Bool { reachesAllKeys }
    package var queryConnections: [RedisPipeline]? { reportsServers ? primaries : nil }

    package func slotMapChanged() {
        guard !isClosed else { return }
        let now = environment.eventLoop.now
        let addresses = directory.view.primaries
        // Report a temporary server that becomes a primary, because its own `onUp` was not forwarded.
        let promotedServers = addresses.filter {
            temporaryServers.removeValue(forKey: $0) != nil && servers[$0]?.isUp ?? false
        }
        primaries = addresses.map { open($0) }
        // Sorted, so that a simulation does not depend on the hash seed of its process.
        let sortedServers = servers.sorted { $0.key.description < $1.key.description }
        for (_, server) in sortedServers { server.invalidateServerTime() }
        for (address, server) in sortedServers where !addresses.contains(address) {
            if let lastUsedAt = temporaryServers[address], now - lastUsedAt < Self.temporaryServerLifetime { continue }
            temporaryServers[address] = nil
            servers[address] = nil
            retire(server)
        }
        for address in promotedServers { servers[address].map { onUp?($0) } }
    }

    package func slotMapUnavailable(because error: RedisError) { onDown?(error) }
}

/// A command to retry, with its reply type erased.
private protocol ClusterCall: AnyObject {
    /// The hash slot of the keys; `nil` if any server can run the command.
    var slot: HashSlot? { get }
    var deadline: NIODeadline { get }
    /// The number of `MOVED` redirections so far.
    var redirectionCount: Int { get set }
    /// The last redirection; `nil` if no server has answered.
    var lastRedirection: Redirection? { get set }

    func fail(_ error: RedisError)
    func attempt(at server: RedisPipeline, isAsking: Bool, timeout: TimeAmount, by pipeline: ClusterPipeline)
}
