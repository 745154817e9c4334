package import NIOCore

/// One connection to each primary of a cluster. Each command goes to the primary that serves its key's slot, and is sent again where
/// that has not run it: to another server when it says so, or a little later when the slot is on its way or nobody's for now.
/// Confined to its event loop.
///
/// A command is run at most once, as with `RedisPipeline`: what is sent again was refused before. All within the command's timeout.
/// Of those that wait for one slot one alone asks whether it is there; the others follow when it was answered.
///
/// Source: "Redis Cluster specification", sections "MOVED Redirection", "ASK Redirection" and "Multi-key Operations".
package final class ClusterPipeline: RedisSender {
    private typealias Address = RedisConfiguration.Address

    private let configuration: RedisConfiguration
    private let environment: RedisEnvironment
    private let directory: ClusterDirectory
    private var servers: [Address: RedisPipeline] = [:]
    /// Of each of the map's primaries, by its place.
    private var primaries: [RedisPipeline] = []
    /// Who is not among the map's primaries, and when it was last sent to.
    private var guests: [Address: NIODeadline] = [:]
    /// What waits until a guest is connected.
    private var expected: [Address: [any ClusterCall]] = [:]
    /// What waits for a slot that is on its way, or nobody's.
    private var stalled: [HashSlot?: Line] = [:]
    /// What servers that are gone have sent and refused.
    private var goneSent: Int64 = 0
    private var goneRefusals: Int64 = 0
    private var encoder = CommandEncoder()
    /// How many commands wait to be sent again.
    private var postponed = 0
    private var isSweepPlanned = false
    private var isClosed = false

    package var onUp: ((RedisPipeline) -> Void)?
    package var onDown: ((RedisError) -> Void)?
    package var onRoundTrip: ((TimeAmount) -> Void)?
    package private(set) var answering: RedisPipeline?

    /// The pause before a slot is asked for again doubles from the first to the last of these.
    private static let pauses = TimeAmount.milliseconds(1)...TimeAmount.milliseconds(16)
    /// So many times a command follows an answer at once.
    private static let promptRedirections = 3
    /// With less time left than this share of it a command is not sent again: it might have no answer, and that it was not run would
    /// not be known any more.
    private static let shortestShare: Int64 = 10
    /// A server that serves nothing is kept for so long after it was last sent to.
    private static let guestTime = TimeAmount.seconds(10)

    private let tellsOfServers: Bool

    /// - Parameter tellsOfServers: whether its connections may be asked which servers the cluster has.
    init(
        configuration: RedisConfiguration, environment: RedisEnvironment, directory: ClusterDirectory, tellsOfServers: Bool
    ) {
        self.tellsOfServers = tellsOfServers
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
        for call in waiting { lookAgain(call) }
        return .andAllComplete(servers.values.map { $0.close() }, on: environment.eventLoop)
    }

    package func settle(then done: @escaping () -> Void) {
        let until = environment.eventLoop.now + standardTimeout
        func settleWhenSent() {
            // What waits is given up by its own time.
            let isLate = environment.eventLoop.now >= until
            guard postponed > 0, !isLate else {
                let connections = servers.sorted { $0.key.description < $1.key.description }.map(\.value)
                // What was under way may have been refused, and be sent again.
                return RedisPipeline.settle(connections) { [self] in
                    if postponed > 0, !isLate { settleWhenSent() } else { done() }
                }
            }
            environment.eventLoop.assumeIsolated().scheduleTask(in: Self.pauses.upperBound) { settleWhenSent() }
        }
        settleWhenSent()
    }

    // MARK: What it looks like

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

    private static let unknown = RedisError(.notConnected, "the cluster has not been heard of yet")

    private func failure(of server: RedisPipeline) -> RedisError {
        RedisError(.notConnected, "\(server.address): \(server.lastFailure?.message ?? "not connected yet")")
    }

    private func primary(of slot: HashSlot) -> RedisPipeline? {
        guard let place = directory.view.place(of: slot), primaries.indices.contains(place) else { return nil }
        return primaries[place]
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
            lookAgain(call())
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

    /// Encodes a command, once, and finds out which slot it is for.
    private func begin(_ command: some RedisCommand) -> (slot: HashSlot?, sentAt: NIODeadline) {
        command.encode(into: &encoder)
        return (command.firstKey.map { encoder.slot(ofArgument: $0) }, environment.eventLoop.now)
    }

    /// Hands out what was encoded, away from where a completion that sends would find it in use.
    private func lending(_ body: (inout CommandEncoder) -> Void) {
        var written = encoder
        encoder = CommandEncoder()
        body(&written)
        encoder = written
    }

    private var standardTimeout: TimeAmount { TimeAmount(configuration.commandTimeout) }
    private var shortestAttempt: TimeAmount { .nanoseconds(standardTimeout.nanoseconds / Self.shortestShare) }

    /// `nil`: nobody serves the slot, or nobody is known.
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

    // MARK: Sending again

    /// A command that was not run where it was sent first.
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
                    // What one key alone is asked for at the new server says nothing of the others.
                    if isAsking { pipeline.goOn(after: slot) } else { pipeline.served(slot) }
                    return pipeline.hand(result, by: server, to: completion)
                }
                pipeline.follow(redirection, self)
            }
        }
    }

    /// What waits for one slot.
    private struct Line {
        var calls: [any ClusterCall] = []
        var pause = ClusterPipeline.pauses.lowerBound
        /// One of them is under way, to find out whether the slot is there.
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
            servers[address]?.doubtClock()
            call.redirections += 1
            if call.redirections <= Self.promptRedirections { lookAgain(call) } else { postpone(call) }
        case .ask(let address):
            directory.doubts()
            let guest = guest(at: address)
            if guest.isUp {
                attempt(call, at: guest, isAsking: true)
            } else if guest.lastFailure != nil {
                postpone(call)
            } else {
                expect(guest, call)
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

    /// Waits for its slot, behind those that do already.
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

    /// The first of a line asks for its slot; whoever has no time left is told.
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
        // What decides about it at once decides about all.
        guard lookAgain(first) else { return served(slot) }
        guard stalled[slot]?.isAsking ?? false else { return }
        environment.eventLoop.assumeIsolated().scheduleTask(in: Self.pauses.upperBound * 8) { [self] in goOn(after: slot) }
    }

    /// The one that asked for a slot has had no answer for long: another does.
    private func goOn(after slot: HashSlot?) {
        guard stalled[slot]?.isAsking ?? false else { return }
        stalled[slot]?.isAsking = false
        planAttempt(for: slot)
    }

    /// A slot is there: all that wait for it follow.
    private func served(_ slot: HashSlot?) {
        guard let line = stalled.removeValue(forKey: slot) else { return }
        postponed -= line.calls.count
        for call in line.calls { lookAgain(call) }
    }

    /// Waits until a server is connected that a slot is on its way to.
    private func expect(_ guest: RedisPipeline, _ call: any ClusterCall) {
        guard admit(call) else { return }
        expected[guest.address, default: []].append(call)
    }

    private func guestIsDecided(_ address: Address) {
        guard let calls = expected.removeValue(forKey: address) else { return }
        postponed -= calls.count
        for call in calls { lookAgain(call) }
    }

    /// Sends it to whoever is in charge now, if anybody is.
    /// - Returns: whether it may yet be answered.
    @discardableResult
    private func lookAgain(_ call: any ClusterCall) -> Bool {
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
            // One that was never reached may be up in a moment.
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
        let slot = call.slot.map { "slot \($0)" } ?? "what was asked for"
        return switch call.last {
        case .tryAgain, .ask:
            RedisError(.server(.tryAgain), "\(slot) is on its way to another server of the cluster, and has not arrived in time")
        case .moved:
            RedisError(.server(.moved), "the servers of the cluster do not agree about who serves \(slot)")
        case .down, nil:
            directory.view.isKnown
                ? RedisError(.server(.clusterDown), "no server of the cluster serves \(slot) for now")
                : lastFailure ?? Self.unknown
        }
    }

    // MARK: Servers

    private func open(_ address: Address) -> RedisPipeline {
        let configuration = configuration.server(at: address, of: directory.view)
        if let known = servers[address] {
            // One that was met before it was known what it is called.
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

    /// A server that a slot is on its way to, which may have none yet.
    private func guest(at address: Address) -> RedisPipeline {
        if !directory.view.primaries.contains(address) {
            guests[address] = environment.eventLoop.now
            planSweep()
        }
        return open(address)
    }

    /// Guests whose time is over leave.
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

    /// What was sent to it is still answered.
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
    package var asked: [RedisPipeline]? { tellsOfServers ? primaries : nil }

    package func mapChanged() {
        guard !isClosed else { return }
        let now = environment.eventLoop.now
        let addresses = directory.view.primaries
        // Whoever was a guest and is a primary now is new to those who look after primaries.
        let arrived = addresses.filter { guests.removeValue(forKey: $0) != nil && servers[$0]?.isUp ?? false }
        primaries = addresses.map { open($0) }
        // In an order that does not depend on hashing: a simulated world is the same in every process.
        let sorted = servers.sorted { $0.key.description < $1.key.description }
        for (_, server) in sorted { server.doubtClock() }
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

/// A command that is sent again, whatever its reply is.
private protocol ClusterCall: AnyObject {
    /// `nil`: of any server.
    var slot: HashSlot? { get }
    var until: NIODeadline { get }
    /// How often it was sent elsewhere at once.
    var redirections: Int { get set }
    /// What the last server answered; `nil`: none was there.
    var last: Redirection? { get set }

    func fail(_ error: RedisError)
    func attempt(at server: RedisPipeline, isAsking: Bool, timeout: TimeAmount, by pipeline: ClusterPipeline)
}
