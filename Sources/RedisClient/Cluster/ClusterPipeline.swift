package import NIOCore

/// One connection to each primary of a cluster. Sends each command to the primary that serves the hash slot of its key.
/// Retries a command that was not run: at another server if it was redirected there, or a little later if its slot is
/// migrating or unassigned. Confined to its event loop.
///
/// Runs a command at most once, like `RedisPipeline`: only a command that was refused is retried, within its timeout.
/// Only one of the commands that wait for a hash slot probes it; the others follow once that one is answered.
///
/// Source: "Redis Cluster specification", sections "MOVED Redirection", "ASK Redirection" and "Multi-key Operations".
package final class ClusterPipeline: RedisSender {
    private typealias Address = RedisConfiguration.Address

    private let configuration: RedisConfiguration
    private let environment: RedisEnvironment
    private let directory: ClusterDirectory
    private var servers: [Address: RedisPipeline] = [:]
    /// The connections to the primaries of the slot map, by their index there.
    private var primaries: [RedisPipeline] = []
    /// The servers in use that are not primaries in the slot map, with the time of the last command to each.
    private var guests: [Address: NIODeadline] = [:]
    /// The commands that wait until a guest is connected.
    private var expected: [Address: [any ClusterCall]] = [:]
    /// The commands that wait for a hash slot that is migrating or unassigned.
    private var stalled: [HashSlot?: Line] = [:]
    /// The command and refusal counts of retired servers.
    private var goneSent: Int64 = 0
    private var goneRefusals: Int64 = 0
    private var encoder = CommandEncoder()
    /// The number of commands that wait for a retry.
    private var postponed = 0
    private var isSweepPlanned = false
    private var isClosed = false

    package var onUp: ((RedisPipeline) -> Void)?
    package var onDown: ((RedisError) -> Void)?
    package var onRoundTrip: ((TimeAmount) -> Void)?
    package private(set) var answering: RedisPipeline?

    /// The pause before a hash slot is probed again, which doubles from the lower to the upper bound.
    private static let pauses = TimeAmount.milliseconds(1)...TimeAmount.milliseconds(16)
    /// The number of redirections that a command follows without a pause.
    private static let promptRedirections = 3
    /// The divisor of the command timeout that gives the least time left for a retry. With less time the retry might
    /// get no reply, and then it would no longer be known that the command was not run.
    private static let retryTimeDivisor: Int64 = 10
    /// The time for which a server without hash slots is kept after its last command.
    private static let guestTime = TimeAmount.seconds(10)

    private let reportsServers: Bool

    /// - Parameter reportsServers: whether the directory may ask these connections for the slot map.
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
        let waiting = stalled.values.flatMap(\.calls) + expected.values.joined()
        stalled = [:]
        expected = [:]
        for call in waiting { retry(call) }
        return .andAllComplete(servers.values.map { $0.close() }, on: environment.eventLoop)
    }

    package func drain(then done: @escaping () -> Void) {
        let until = environment.eventLoop.now + standardTimeout
        func settleWhenSent() {
            // Waiting commands fail at their own deadlines.
            let isLate = environment.eventLoop.now >= until
            guard postponed > 0, !isLate else {
                let connections = servers.sorted { $0.key.description < $1.key.description }.map(\.value)
                // Commands in flight may have been refused and wait for a retry.
                return RedisPipeline.drain(connections) { [self] in
                    if postponed > 0, !isLate { settleWhenSent() } else { done() }
                }
            }
            environment.eventLoop.assumeIsolated().scheduleTask(in: Self.pauses.upperBound) { settleWhenSent() }
        }
        settleWhenSent()
    }

    // MARK: State

    package var connections: [RedisPipeline] { primaries }
    package var isUp: Bool { primaries.contains(where: \.isUp) }
    package var isWhole: Bool { !primaries.isEmpty && primaries.allSatisfy(\.isUp) }
    package func reaches(_ key: String) -> Bool { primary(of: HashSlot(ofKey: key))?.isUp ?? false }
    package var recentRefusal: RedisError? { servers.values.lazy.compactMap(\.recentRefusal).first }
    package var refusals: Int64 { servers.values.reduce(goneRefusals) { $0 + $1.refusals } }
    package var commandsSent: Int64 { servers.values.reduce(goneSent) { $0 + $1.commandsSent } }
    package var awaited: Int { servers.values.reduce(postponed) { $0 + $1.awaited } }

    package var lastFailure: RedisError? {
        guard directory.view.isKnown else { return directory.failure }
        return primaries.first { !$0.isUp && $0.lastFailure != nil }.map { failure(of: $0) }
    }

    private static let unknown = RedisError(.notConnected, "the servers of the cluster are not known yet")

    private func failure(of server: RedisPipeline) -> RedisError {
        RedisError(.notConnected, "\(server.address): \(server.lastFailure?.message ?? "not connected yet")")
    }

    private func primary(of slot: HashSlot) -> RedisPipeline? {
        guard let position = directory.view.index(of: slot), primaries.indices.contains(position) else { return nil }
        return primaries[position]
    }

    // MARK: Sending

    package func send<Command: RedisCommand>(
        _ command: Command, timeout: TimeAmount?, completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        let (slot, sentAt) = begin(command)
        func call() -> Call<Command.Reply> {
            Call(slot: slot, until: sentAt + (timeout ?? standardTimeout), completion: completion) {
                server, isAsking, left, done in
                if isAsking {
                    server.ask(command, timeout: left, completion: done)
                } else {
                    server.send(command, timeout: left, completion: done)
                }
            }
        }
        guard let server = server(for: slot), server.isUp else {
            encoder.clear()
            retry(call())
            return
        }
        lending { written in
            server.send(command, written: &written, timeout: timeout) { [self] result in
                guard let redirection = redirection(in: result, by: server) else {
                    return hand(result, by: server, to: completion)
                }
                follow(redirection, call())
            }
        }
    }

    /// Encodes a command once and computes its hash slot.
    private func begin(_ command: some RedisCommand) -> (slot: HashSlot?, sentAt: NIODeadline) {
        command.encode(into: &encoder)
        return (command.firstKey.map { encoder.slot(ofArgument: $0) }, environment.eventLoop.now)
    }

    /// Lends the encoded command to `body`, so that a completion that sends another command finds a free encoder.
    private func lending(_ body: (inout CommandEncoder) -> Void) {
        var written = encoder
        encoder = CommandEncoder()
        body(&written)
        encoder = written
    }

    private var standardTimeout: TimeAmount { TimeAmount(configuration.commandTimeout) }
    private var shortestAttempt: TimeAmount { .nanoseconds(standardTimeout.nanoseconds / Self.retryTimeDivisor) }

    /// Returns `nil` if no server serves the hash slot, or if no server is known.
    private func server(for slot: HashSlot?) -> RedisPipeline? {
        if let slot { primary(of: slot) } else { primaries.first(where: \.isUp) ?? primaries.first }
    }

    private func hand<Reply>(
        _ result: Result<Reply, RedisError>, by server: RedisPipeline, to completion: (Result<Reply, RedisError>) -> Void
    ) {
        if case .failure(let error) = result, error.isOutcomeUnknown { directory.doubts() }
        let before = answering
        answering = server
        completion(result)
        answering = before
    }

    // MARK: Retries

    /// A command that the first server did not run.
    private final class Call<Reply>: ClusterCall {
        typealias Completion = (Result<Reply, RedisError>) -> Void

        let slot: HashSlot?
        let until: NIODeadline
        let completion: Completion
        let send: (_ to: RedisPipeline, _ isAsking: Bool, _ timeout: TimeAmount, @escaping Completion) -> Void
        var redirections = 0
        var last: Redirection?

        init(
            slot: HashSlot?, until: NIODeadline, completion: @escaping Completion,
            send: @escaping (RedisPipeline, Bool, TimeAmount, @escaping Completion) -> Void
        ) {
            self.slot = slot
            self.until = until
            self.completion = completion
            self.send = send
        }

        func fail(_ error: RedisError) { completion(.failure(error)) }

        func attempt(at server: RedisPipeline, isAsking: Bool, timeout: TimeAmount, by pipeline: ClusterPipeline) {
            send(server, isAsking, timeout) { [self] result in
                guard let redirection = pipeline.redirection(in: result, by: server) else {
                    // A reply of the importing server concerns these keys only, not the rest of the slot.
                    if isAsking { pipeline.goOn(after: slot) } else { pipeline.served(slot) }
                    return pipeline.hand(result, by: server, to: completion)
                }
                pipeline.follow(redirection, self)
            }
        }
    }

    /// The commands that wait for one hash slot.
    private struct Line {
        var calls: [any ClusterCall] = []
        var pause = ClusterPipeline.pauses.lowerBound
        /// Whether one of the commands is in flight to probe the hash slot.
        var isAsking = false
    }

    private func redirection<Reply>(in result: Result<Reply, RedisError>, by server: RedisPipeline) -> Redirection? {
        guard case .failure(let error) = result else { return nil }
        return Redirection(error, asked: server.address)
    }

    private func follow(_ redirection: Redirection, _ call: any ClusterCall) {
        call.last = redirection
        switch redirection {
        case .moved(let slot, let address):
            directory.moved(slot, to: address)
            servers[address]?.invalidateServerTime()
            call.redirections += 1
            if call.redirections <= Self.promptRedirections { retry(call) } else { postpone(call) }
        case .ask(let address):
            directory.doubts()
            let temporaryConnection = temporaryConnection(at: address)
            if temporaryConnection.isUp {
                attempt(call, at: temporaryConnection, isAsking: true)
            } else if temporaryConnection.lastFailure != nil {
                postpone(call)
            } else {
                expect(temporaryConnection, call)
            }
        case .tryAgain, .down:
            directory.doubts()
            postpone(call)
        }
    }

    private func admit(_ call: any ClusterCall) -> Bool {
        guard postponed < configuration.maximumPending else {
            call.fail(RedisError(.overloaded, "\(postponed) commands already wait for the cluster"))
            return false
        }
        postponed += 1
        return true
    }

    /// Queues a command behind those that already wait for its hash slot.
    private func postpone(_ call: any ClusterCall) {
        guard admit(call) else { return }
        var line = stalled[call.slot] ?? Line()
        line.calls.append(call)
        let isFirst = line.calls.count == 1 || line.isAsking
        line.isAsking = false
        stalled[call.slot] = line
        if isFirst { planAttempt(for: call.slot) }
    }

    private func planAttempt(for slot: HashSlot?) {
        guard let pause = stalled[slot]?.pause else { return }
        var random = environment.random
        let spread = TimeAmount.nanoseconds(Int64.random(in: pause.nanoseconds / 2...pause.nanoseconds, using: &random))
        environment.eventLoop.assumeIsolated().scheduleTask(in: spread) { [self] in attemptFirst(of: slot) }
    }

    /// Sends the first command of a queue to probe its hash slot, and fails those with too little time left.
    private func attemptFirst(of slot: HashSlot?) {
        guard var line = stalled[slot] else { return }
        let end = environment.eventLoop.now + shortestAttempt
        let late = line.calls.filter { $0.until <= end }
        line.calls.removeAll { $0.until <= end }
        line.pause = min(Self.pauses.upperBound, line.pause * 2)
        let first = line.calls.isEmpty ? nil : line.calls.removeFirst()
        line.isAsking = first != nil
        stalled[slot] = line.calls.isEmpty && first == nil ? nil : line
        postponed -= late.count + (first == nil ? 0 : 1)
        for call in late { call.fail(givenUp(call)) }
        guard let first else { return }
        // If the probe failed at once, the other commands fail the same way.
        guard retry(first) else { return served(slot) }
        guard stalled[slot]?.isAsking ?? false else { return }
        environment.eventLoop.assumeIsolated().scheduleTask(in: Self.pauses.upperBound * 8) { [self] in goOn(after: slot) }
    }

    /// Plans the next probe if the last one has decided nothing.
    private func goOn(after slot: HashSlot?) {
        guard stalled[slot]?.isAsking ?? false else { return }
        stalled[slot]?.isAsking = false
        planAttempt(for: slot)
    }

    /// Retries every command that waits for a hash slot.
    private func served(_ slot: HashSlot?) {
        guard let line = stalled.removeValue(forKey: slot) else { return }
        postponed -= line.calls.count
        for call in line.calls { retry(call) }
    }

    /// Queues a command until the server that imports its hash slot is connected or fails.
    private func expect(_ temporaryConnection: RedisPipeline, _ call: any ClusterCall) {
        guard admit(call) else { return }
        expected[temporaryConnection.address, default: []].append(call)
    }

    private func guestIsDecided(_ address: Address) {
        guard let calls = expected.removeValue(forKey: address) else { return }
        postponed -= calls.count
        for call in calls { retry(call) }
    }

    /// Sends a command to the server that serves its hash slot now, or postpones it.
    /// - Returns: `false` if the command has failed at once.
    @discardableResult
    private func retry(_ call: any ClusterCall) -> Bool {
        func fail(_ error: RedisError) -> Bool {
            call.fail(error)
            return false
        }
        guard !isClosed else { return fail(RedisError(.notConnected, "this client was closed")) }
        guard let server = server(for: call.slot) else {
            guard directory.failure == nil else { return fail(lastFailure ?? Self.unknown) }
            directory.doubts()
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
        let left = call.until - environment.eventLoop.now
        guard left >= shortestAttempt else { return call.fail(givenUp(call)) }
        call.attempt(at: server, isAsking: isAsking, timeout: left, by: self)
    }

    private func givenUp(_ call: any ClusterCall) -> RedisError {
        let slot = call.slot.map { "hash slot \($0)" } ?? "the hash slot"
        return switch call.last {
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
        if let known = servers[address] {
            // The server was dialed before its host name was known.
            guard !known.isUp, known.serverName != configuration.serverName else { return known }
            retire(known)
        }
        let server = RedisPipeline(
            configuration: configuration, environment: environment, directory: directory.directory(of: address))
        servers[address] = server
        server.onUp = { [weak self] server in
            guard let self else { return }
            directory.doubts()
            if guests[address] == nil { onUp?(server) }
            guestIsDecided(address)
            directory.reached()
        }
        server.onDown = { [weak self] error in
            guard let self else { return }
            directory.doubts()
            if guests[address] == nil { onDown?(error) }
            guestIsDecided(address)
        }
        server.onRoundTrip = { [weak self] in self?.onRoundTrip?($0) }
        server.start()
        return server
    }

    /// Returns the connection to a server that imports a hash slot and may not serve any yet.
    private func temporaryConnection(at address: Address) -> RedisPipeline {
        if !directory.view.primaries.contains(address) {
            guests[address] = environment.eventLoop.now
            planSweep()
        }
        return open(address)
    }

    /// Schedules the removal of guests that were not used for `guestTime`.
    private func planSweep() {
        guard !isSweepPlanned else { return }
        isSweepPlanned = true
        environment.eventLoop.assumeIsolated().scheduleTask(in: Self.guestTime) { [weak self] in
            guard let self else { return }
            isSweepPlanned = false
            mapChanged()
            if !guests.isEmpty { planSweep() }
        }
    }

    /// Takes a server out of use. Its connection closes after the command timeout, so that the commands sent to it are
    /// still answered.
    private func retire(_ server: RedisPipeline) {
        goneSent += server.commandsSent
        goneRefusals += server.refusals
        server.onUp = nil
        server.onDown = nil
        guestIsDecided(server.address)
        environment.eventLoop.assumeIsolated().scheduleTask(in: standardTimeout) { _ = server.close() }
    }
}

extension ClusterPipeline: ClusterFollower {
    package var isSettled: Bool { isWhole }
    package var asked: [RedisPipeline]? { reportsServers ? primaries : nil }

    package func mapChanged() {
        guard !isClosed else { return }
        let now = environment.eventLoop.now
        let addresses = directory.view.primaries
        // A guest that becomes a primary is reported by `onUp`, which skips guests.
        let arrived = addresses.filter { guests.removeValue(forKey: $0) != nil && servers[$0]?.isUp ?? false }
        primaries = addresses.map { open($0) }
        // Sorted, so that a simulation does not depend on the hash seed of its process.
        let sorted = servers.sorted { $0.key.description < $1.key.description }
        for (_, server) in sorted { server.invalidateServerTime() }
        for (address, server) in sorted where !addresses.contains(address) {
            if let used = guests[address], now - used < Self.guestTime { continue }
            guests[address] = nil
            servers[address] = nil
            retire(server)
        }
        for address in arrived { servers[address].map { onUp?($0) } }
    }

    package func remainsUnknown(because error: RedisError) { onDown?(error) }
}

/// A command to retry, with its reply type erased.
private protocol ClusterCall: AnyObject {
    /// The hash slot of the keys, or `nil` if any server can run the command.
    var slot: HashSlot? { get }
    var until: NIODeadline { get }
    /// The number of `MOVED` redirections so far.
    var redirections: Int { get set }
    /// The last redirection, or `nil` if no server has answered.
    var last: Redirection? { get set }

    func fail(_ error: RedisError)
    func attempt(at server: RedisPipeline, isAsking: Bool, timeout: TimeAmount, by pipeline: ClusterPipeline)
}
