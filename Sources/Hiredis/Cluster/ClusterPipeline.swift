package import NIOCore

/// One connection to each primary of a cluster. Each command goes to the primary that serves its key's slot, and is sent again where
/// that has not run it: to another server when it says so, or a little later when the slot is on its way or nobody's for now.
/// Confined to its event loop.
///
/// A command is run at most once, as with `RedisPipeline`: what is sent again was refused before. All within the command's timeout.
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
    /// What servers that are gone have sent and refused.
    private var goneSent: Int64 = 0
    private var goneRefusals: Int64 = 0
    private var encoder = CommandEncoder()
    /// How many commands wait to be sent again.
    private var postponed = 0
    private var isStarted = false
    private var isClosed = false

    package var onUp: ((RedisPipeline) -> Void)?
    package var onDown: ((RedisError) -> Void)?
    package var onRoundTrip: ((TimeAmount) -> Void)?
    package private(set) var answering: RedisPipeline?

    /// The pause before a command is sent again doubles from the first to the last of these.
    private static let pauses = TimeAmount.milliseconds(1)...TimeAmount.milliseconds(5)
    /// So many times it is sent again at once.
    private static let promptRedirections = 3
    /// A server that serves nothing is kept for so long after it was last sent to.
    private static let guestTime = TimeAmount.seconds(10)

    init(configuration: RedisConfiguration, environment: RedisEnvironment, directory: ClusterDirectory) {
        self.configuration = configuration
        self.environment = environment
        self.directory = directory
    }

    package func start() {
        guard !isStarted else { return }
        isStarted = true
        directory.add(self)
        mapChanged()
    }

    package func close() -> EventLoopFuture<Void> {
        isClosed = true
        return .andAllComplete(servers.values.map { $0.close() }, on: environment.eventLoop)
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
        guard let place = directory.view.map.place(of: slot), primaries.indices.contains(place) else { return nil }
        return primaries[place]
    }

    // MARK: Sending

    package func send<Command: RedisCommand>(
        _ command: Command, timeout: TimeAmount?, completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        // Away from where a completion that sends would find it in use.
        var written = encoder
        encoder = CommandEncoder()
        defer { encoder = written }
        command.encode(into: &written)
        let slot = command.firstKey.map { written.slot(ofArgument: $0) }
        let sentAt = environment.eventLoop.now
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
            written.clear()
            return lookAgain(call())
        }
        server.send(command, written: &written, timeout: timeout) { [self] result in
            guard let redirection = redirection(in: result, by: server) else { return hand(result, by: server, to: completion) }
            follow(redirection, call())
        }
    }

    package func run<Command: ScriptCommand>(
        _ command: Command, timeout: TimeAmount?, completion: @escaping (Result<Command.Reply, RedisError>) -> Void
    ) {
        var written = encoder
        encoder = CommandEncoder()
        defer { encoder = written }
        command.encode(into: &written)
        let slot = command.firstKey.map { written.slot(ofArgument: $0) }
        let sentAt = environment.eventLoop.now
        func call() -> Call<Command.Reply> {
            Call(slot: slot, until: sentAt + (timeout ?? standardTimeout), completion: completion) {
                server, isAsking, left, done in
                if isAsking {
                    server.ask(script: command, timeout: left, completion: done)
                } else {
                    server.run(command, timeout: left, completion: done)
                }
            }
        }
        guard let server = server(for: slot), server.isUp else {
            written.clear()
            return lookAgain(call())
        }
        server.run(command, written: &written, timeout: timeout) { [self] result in
            guard let redirection = redirection(in: result, by: server) else { return hand(result, by: server, to: completion) }
            follow(redirection, call())
        }
    }

    private var standardTimeout: TimeAmount { TimeAmount(configuration.commandTimeout) }

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
    private final class Call<Reply> {
        typealias Completion = (Result<Reply, RedisError>) -> Void

        let slot: HashSlot?
        let until: NIODeadline
        let completion: Completion
        let send: (_ to: RedisPipeline, _ isAsking: Bool, _ timeout: TimeAmount, @escaping Completion) -> Void
        var redirections = 0
        /// What the last server answered; `nil`: none was there.
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
    }

    private func redirection<Reply>(in result: Result<Reply, RedisError>, by server: RedisPipeline) -> Redirection? {
        guard case .failure(let error) = result else { return nil }
        return Redirection(error, asked: server.address)
    }

    private func follow<Reply>(_ redirection: Redirection, _ call: Call<Reply>) {
        call.last = redirection
        call.redirections += 1
        switch redirection {
        case .moved(let slot, let address):
            directory.moved(slot, to: address)
            if call.redirections <= Self.promptRedirections { lookAgain(call) } else { postpone(call) }
        case .ask(let address):
            let guest = guest(at: address)
            if guest.isUp, call.redirections <= Self.promptRedirections {
                attempt(call, at: guest, isAsking: true)
            } else {
                postpone(call)
            }
        case .tryAgain:
            postpone(call)
        case .down:
            directory.doubts()
            postpone(call)
        }
    }

    private func postpone<Reply>(_ call: Call<Reply>) {
        guard postponed < configuration.maximumPending else {
            return call.completion(.failure(RedisError(.overloaded, "\(postponed) commands already wait for the cluster")))
        }
        let doubled = Self.pauses.lowerBound * (1 << min(max(0, call.redirections - 1), 10))
        let instant = min(environment.eventLoop.now + min(Self.pauses.upperBound, doubled), call.until)
        postponed += 1
        environment.eventLoop.assumeIsolated().scheduleTask(deadline: instant) { [self] in
            postponed -= 1
            lookAgain(call)
        }
    }

    /// Sends it to whoever is in charge now, if anybody is.
    private func lookAgain<Reply>(_ call: Call<Reply>) {
        guard !isClosed else { return call.completion(.failure(RedisError(.notConnected, "this client was closed"))) }
        guard environment.eventLoop.now < call.until else { return call.completion(.failure(givenUp(call))) }
        guard let server = server(for: call.slot) else {
            guard directory.failure == nil else { return call.completion(.failure(lastFailure ?? Self.unknown)) }
            call.redirections += 1
            directory.doubts()
            return postpone(call)
        }
        if server.isUp { return attempt(call, at: server, isAsking: false) }
        // One that was never reached may be up in a moment.
        guard server.lastFailure == nil else { return call.completion(.failure(failure(of: server))) }
        call.redirections += 1
        postpone(call)
    }

    private func attempt<Reply>(_ call: Call<Reply>, at server: RedisPipeline, isAsking: Bool) {
        let left = call.until - environment.eventLoop.now
        guard left > .zero else { return call.completion(.failure(givenUp(call))) }
        call.send(server, isAsking, left) { [self] result in
            guard let redirection = redirection(in: result, by: server) else {
                return hand(result, by: server, to: call.completion)
            }
            follow(redirection, call)
        }
    }

    private func givenUp<Reply>(_ call: Call<Reply>) -> RedisError {
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
        if let known = servers[address] { return known }
        let server = RedisPipeline(configuration: configuration.server(at: address), environment: environment)
        servers[address] = server
        server.onUp = { [weak self] server in
            guard let self else { return }
            directory.doubts()
            if guests[address] == nil { onUp?(server) }
            directory.reached()
        }
        server.onDown = { [weak self] error in
            guard let self else { return }
            directory.doubts()
            if guests[address] == nil { onDown?(error) }
        }
        server.onRoundTrip = { [weak self] in self?.onRoundTrip?($0) }
        server.start()
        return server
    }

    /// A server that a slot is on its way to, which may have none yet.
    private func guest(at address: Address) -> RedisPipeline {
        if !directory.view.map.primaries.contains(address) { guests[address] = environment.eventLoop.now }
        return open(address)
    }

    /// What was sent to it is still answered.
    private func retire(_ server: RedisPipeline) {
        goneSent += server.commandsSent
        goneRefusals += server.refusals
        server.onUp = nil
        server.onDown = nil
        environment.eventLoop.assumeIsolated().scheduleTask(in: standardTimeout) { _ = server.close() }
    }
}

extension ClusterPipeline: ClusterFollower {
    package var isSettled: Bool { isWhole }
    package var asked: [RedisPipeline]? { primaries }

    package func mapChanged() {
        guard isStarted, !isClosed else { return }
        let now = environment.eventLoop.now
        let addresses = directory.view.map.primaries
        for address in addresses { guests[address] = nil }
        primaries = addresses.map { open($0) }
        for (address, server) in servers where !addresses.contains(address) {
            if let used = guests[address], now - used < Self.guestTime { continue }
            guests[address] = nil
            servers[address] = nil
            retire(server)
        }
    }
}
