internal import DequeModule
package import Interlock
internal import InterlockCore
package import NIOCore
internal import NIOHTTP1
package import SidecarListeners
internal import SidecarSettings

/// The source of the data in all open consoles, computed once for all of them. Confined to the coordinator's event
/// loop.
///
/// While any console is connected, the hub checks the sidecar's state ten times a second and sends each follower the
/// newest version of every part that changed. A slow follower misses the versions in between. Redis is read less often,
/// and only for the parts that a console shows.
package final class LiveHub {
    /// The maximum number of concurrent followers.
    static let maximumFollowers = 64
    /// The number of topics above which those without followers are dropped, the least recently viewed first.
    private static let maximumTopics = 64
    private static let tick = TimeAmount.milliseconds(100)
    /// How long a postponed read is remembered if nobody requests it again, in milliseconds.
    private static let postponedReadLifetime: Int64 = 3000
    /// The number of ticks without an update after which a comment is sent, to show that the sidecar is alive.
    private static let heartbeatTicks = 20

    private let eventLoop: any EventLoop
    private let calls: CoordinatorCalls
    private let parts: LiveParts
    private let rates = RateHistory()
    private let events = EventHistory()
    private let budget = ReadBudget()
    /// The known topics. Topics without followers are kept, because their last content may be requested again.
    private var topics: [LivePart: LiveTopic] = [:]
    private var followers: [ObjectIdentifier: LiveFollower] = [:]
    /// The remaining steps of the current round. If a round is unfinished at the next tick, that tick starts none.
    private var round: Deque<Step> = []
    /// The event-loop time of all consoles. Rounds run in slices, and all consoles together count as one connection.
    private let slices: ConnectionSlices
    private var ticker: RepeatedTask?
    private var sampler: RepeatedTask?

    private enum Step {
        case refresh(LiveTopic)
        case update(ObjectIdentifier)
    }

    /// - Parameters:
    ///   - probe: the lookup of a service's probe readings.
    ///   - scheduler: the scheduler that divides the event loop's time among clients; `nil` if there are no other
    ///     clients.
    package init(
        coordinator: Coordinator, probe: @escaping ProbeReadings.Lookup = { _ in nil }, scheduler: SliceScheduler? = nil
    ) {
        eventLoop = coordinator.eventLoop
        slices = ConnectionSlices(scheduler ?? SliceScheduler(of: coordinator))
        calls = coordinator.callsOnEventLoop()
        parts = LiveParts(calls: calls, probe: probe, rates: rates, events: events, budget: budget)
    }

    /// Creates a hub on the coordinator's event loop, where it starts to record decisions and events.
    package static func start(
        for coordinator: Coordinator, probe: @escaping ProbeReadings.Lookup = { _ in nil },
        scheduler: NIOLoopBound<SliceScheduler>? = nil
    ) async throws -> NIOLoopBound<LiveHub> {
        let eventLoop = coordinator.eventLoop
        return try await eventLoop.submit {
            let hub = LiveHub(coordinator: coordinator, probe: probe, scheduler: scheduler?.value)
            hub.begin()
            return NIOLoopBound(hub, eventLoop: eventLoop)
        }.get()
    }

    private func begin() {
        // The subscription is never cancelled, so it must not retain the hub.
        _ = calls.follow { [weak self] message, event in self?.received(message, event) }
        sampler = scheduleRepeated(every: .seconds(1)) { [weak self] in self?.sample() }
    }

    deinit {
        sampler?.cancel()
        ticker?.cancel()
    }

    private func received(_ message: EventMessage, _ event: InterlockEvent<EventPayload>?) {
        events.received(message, event) { calls.hasService($0) }
    }

    private func scheduleRepeated(every pause: TimeAmount, _ action: @escaping () -> Void) -> RepeatedTask {
        let action = NIOLoopBound(action, eventLoop: eventLoop)
        return eventLoop.scheduleRepeatedTask(initialDelay: pause, delay: pause) { _ in action.value() }
    }

    /// Records the decisions of the last second.
    func sample() {
        let counts = calls.counts
        rates.sample(counts)
        events.keep { counts.services[$0] != nil }
    }

    // MARK: Once

    /// Renders all parts of a view as one JSON object on one line.
    /// - Parameter show: a closure that is called once, after the pending reads of the parts from Redis have ended.
    /// - Throws: `InterlockError` if the view's service is not configured.
    func frame(of view: LiveView, show: @escaping (ByteBuffer) -> Void) throws(InterlockError) {
        let topics = try self.topics(of: view)
        readDueTopics(topics)
        var unread = topics.count
        for topic in topics {
            topic.whenRead { [self] in
                unread -= 1
                guard unread == 0 else { return }
                show(frame(of: view, topics))
            }
        }
        dropTopics(except: topics)
    }

    private func frame(of view: LiveView, _ topics: [LiveTopic]) -> ByteBuffer {
        var frame = ByteBuffer()
        frame.writeString("{\"now_ms\":\(calls.wallTime())")
        for topic in topics {
            parts.refresh(topic)
            frame.writeString(",\"\(topic.part.name)\":")
            if let json = topic.json { frame.writeImmutableBuffer(json) }
        }
        frame.writeString("}")
        return frame
    }

    private func topics(of view: LiveView) throws(InterlockError) -> [LiveTopic] {
        if case .service(let name) = view { _ = try calls.service(name.text).get() }
        let now = calls.now()
        return view.parts.map { part in
            let topic = topics[part] ?? LiveTopic(part, now: now)
            topics[part] = topic
            topic.requestedAt = now
            return topic
        }
    }

    private func dropTopics(except kept: [LiveTopic]) {
        guard topics.count > Self.maximumTopics else { return }
        let followed = Set(followers.values.flatMap { $0.topics.map(\.part) } + kept.map(\.part))
        let others = topics.values.filter { !followed.contains($0.part) }.sorted { $0.requestedAt < $1.requestedAt }
        for topic in others.prefix(topics.count - Self.maximumTopics) { topics[topic.part] = nil }
    }

    // MARK: Following

    /// Sends a stream of events: `hello`, then each part, and again each part that changes.
    /// - Throws: `InterlockError` if the view's service is not configured, or there are too many followers.
    func follow(_ view: LiveView, _ call: HTTPCall, _ responder: HTTPResponder) throws(InterlockError) {
        guard followers.count < Self.maximumFollowers else {
            throw InterlockError(
                .unavailable, "\(Self.maximumFollowers) consoles are connected to this sidecar; close one or use another sidecar")
        }
        let follower = LiveFollower(call: call, responder: responder, topics: try topics(of: view))
        dropTopics(except: follower.topics)
        var response = ServerSentEvents.response(.ok)
        response.body = .open
        guard responder(response) else { return }
        let id = ObjectIdentifier(follower)
        followers[id] = follower
        budget.followers = followers.count
        responder.onDisconnect { [weak self] in
            self?.followerLeft(id)
            responder.abort()
        }
        follower.sendHello(wall: calls.wallTime())
        readDueTopics(follower.topics)
        for topic in follower.topics { parts.refresh(topic) }
        follower.sendUpdates()
        if ticker == nil, followers[id] != nil { ticker = scheduleRepeated(every: Self.tick) { [weak self] in self?.runTick() } }
    }

    private func followerLeft(_ id: ObjectIdentifier) {
        // Otherwise every letter typed into the search field would leave a postponed read behind.
        for topic in followers.removeValue(forKey: id)?.topics ?? [] { topic.cancelPostponedRead() }
        budget.followers = followers.count
        guard followers.isEmpty else { return }
        ticker?.cancel()
        ticker = nil
    }

    private func runTick() {
        for (id, follower) in followers where follower.mustEnd {
            follower.end()
            followerLeft(id)
        }
        guard round.isEmpty else { return }
        readDueTopics()
        round.append(contentsOf: followed.map(Step.refresh))
        round.append(contentsOf: followers.keys.map(Step.update))
        continueRoundLater()
    }

    private func continueRoundLater() { slices.later { [weak self] in self?.continueRound() } }

    /// Executes as many steps as fit into the slice.
    private func continueRound() {
        while let step = round.popFirst() {
            switch step {
            case .refresh(let topic): parts.refresh(topic)
            case .update(let id):
                guard let follower = followers[id] else { continue }
                follower.sendHello(wall: calls.wallTime())
                follower.sendUpdates()
                follower.sendHeartbeatIfQuiet(after: Self.heartbeatTicks)
            }
            guard slices.mayContinue else { break }
        }
        if !round.isEmpty { continueRoundLater() }
    }

    /// The topics of all followers, without duplicates.
    private var followed: Dictionary<LivePart, LiveTopic>.Values {
        var topics: [LivePart: LiveTopic] = [:]
        for follower in followers.values { for topic in follower.topics { topics[topic.part] = topic } }
        return topics.values
    }

    /// Starts the due reads of followed, postponed and requested topics, as far as the budget allows.
    private func readDueTopics(_ requested: [LiveTopic] = []) {
        let now = calls.now()
        var due: [LivePart: LiveTopic] = [:]
        // If the budget is spent, only the requested topics are visited, so that they record the postponement.
        if budget.mayRead(now: now) {
            for topic in followed { due[topic.part] = topic }
            for topic in topics.values
            where topic.reading.isPostponed && now < topic.requestedAt.advanced(byMilliseconds: Self.postponedReadLifetime) {
                due[topic.part] = topic
            }
        }
        for topic in requested { due[topic.part] = topic }
        for topic in LiveTopic.sortedByDueTime(due.values) { parts.read(topic, now: now) }
    }
}

/// A console that follows a view.
private final class LiveFollower {
    private let call: HTTPCall
    private let responder: HTTPResponder
    let topics: [LiveTopic]
    /// The version of each topic that was last sent.
    private var sentVersions: [Int]
    private var quietTicks = 0
    /// The number of ticks for which the client has read nothing.
    private var stalledTicks = 0
    private var ticksSinceHello = 0
    /// The role that was last sent.
    private var role: APIKey.Role?

    /// The number of ticks after which a client that reads nothing is disconnected: 30 s.
    private static let maximumStalledTicks = 300
    /// The number of ticks between two `hello` events: one minute.
    private static let maximumTicksWithoutHello = 600

    init(call: HTTPCall, responder: HTTPResponder, topics: [LiveTopic]) {
        self.call = call
        self.responder = responder
        self.topics = topics
        sentVersions = Array(repeating: 0, count: topics.count)
    }

    private var caller: AccessControl.Caller? { call.access.current(call.caller) }

    /// Whether the stream must end, because the client has disconnected or reads nothing, the sidecar is shutting down,
    /// or the key was removed.
    var mustEnd: Bool {
        responder.isOver || call.shutdown.hasFired || caller == nil || stalledTicks > Self.maximumStalledTicks
    }

    func end() { if stalledTicks > 0 { responder.abort() } else { responder.writeEnd(nil) } }

    /// Sends the caller's name, its role and the time: first, whenever the role changes, and once a minute, because
    /// clocks may be adjusted.
    func sendHello(wall: Int64) {
        ticksSinceHello += 1
        guard let caller, responder.isWritable, caller.role != role || ticksSinceHello > Self.maximumTicksWithoutHello else {
            return
        }
        role = caller.role
        ticksSinceHello = 0
        write(
            ByteBuffer(
                string: ServerSentEvents.event(
                    "hello", ["caller": .string(caller.name), "now_ms": .integer(wall), "role": .string(caller.role.rawValue)])))
    }

    /// Sends the changed topics, if the client is reading.
    func sendUpdates() {
        guard responder.isWritable else { return stalledTicks += 1 }
        stalledTicks = 0
        var updates = ByteBuffer()
        for (index, topic) in topics.enumerated() where sentVersions[index] != topic.version {
            sentVersions[index] = topic.version
            guard let json = topic.json else { continue }
            updates.writeString("event: \(topic.part.name)\ndata: ")
            updates.writeImmutableBuffer(json)
            updates.writeStaticString("\n\n")
        }
        if updates.readableBytes > 0 { write(updates) }
    }

    func sendHeartbeatIfQuiet(after ticks: Int) {
        quietTicks += 1
        if quietTicks > ticks, responder.isWritable { write(ByteBuffer(string: ":\n\n")) }
    }

    private func write(_ bytes: ByteBuffer) {
        quietTicks = 0
        responder.write(bytes)
        responder.flush()
    }
}

extension NIOLoopBound<LiveHub> {
    /// The hub as a source of views.
    package var source: LiveView.Source {
        { (view, show) throws(InterlockError) in try value.frame(of: view, show: show) }
    }
}
