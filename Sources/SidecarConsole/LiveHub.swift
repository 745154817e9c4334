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
    /// The number of topics above which topics without followers are dropped, the least recently requested first.
    private static let maximumTopics = 64
    private static let tick = TimeAmount.milliseconds(100)
    /// The time for which a postponed read stays due without another request for its topic.
    private static let postponedReadLifetimeMilliseconds: Int64 = 3000
    /// The number of ticks without an update after which a comment is sent, to show that the sidecar is alive.
    private static let heartbeatTicks = 20

    private let eventLoop: any EventLoop
    private let coordinator: LoopBoundCoordinator
    private let parts: LiveParts
    private let rates = RateHistory()
    private let events = EventHistory()
    private let budget = ReadBudget()
    /// The topics that consoles have requested. Topics without followers are kept, because their content may be
    /// requested again.
    private var topics: [LivePart: LiveTopic] = [:]
    private var followers: [ObjectIdentifier: LiveFollower] = [:]
    /// The remaining steps of the current round. A tick starts a round only if the previous one is finished.
    private var round: Deque<Step> = []
    /// The scheduling of rounds, which run in slices. All consoles together count as one connection.
    private let slices: ConnectionSlices
    private var ticker: RepeatedTask?
    private var sampler: RepeatedTask?

    /// A step of a round.
    private enum Step {
        case refresh(LiveTopic)
        case update(ObjectIdentifier)
    }

    /// Creates a hub that does not record decisions and events. `start` creates one that does.
    /// - Parameters:
    ///   - probe: the lookup of a service's probe readings.
    ///   - scheduler: the scheduler that divides the event loop's time among clients; `nil` if there are no other
    ///     clients.
    package init(
        coordinator: Coordinator, probe: @escaping ProbeReadings.Lookup = { _ in nil }, scheduler: SliceScheduler? = nil
    ) {
        eventLoop = coordinator.eventLoop
        slices = ConnectionSlices(scheduler ?? SliceScheduler(of: coordinator))
        self.coordinator = coordinator.loopBound()
        parts = LiveParts(coordinator: self.coordinator, probe: probe, rates: rates, events: events, budget: budget)
    }

    /// Creates a hub on the coordinator's event loop, where it starts to record decisions and events.
    package static func start(
        for coordinator: Coordinator, probe: @escaping ProbeReadings.Lookup = { _ in nil },
        scheduler: NIOLoopBound<SliceScheduler>? = nil
    ) async throws -> NIOLoopBound<LiveHub> {
        let eventLoop = coordinator.eventLoop
        return try await eventLoop.submit {
            let hub = LiveHub(coordinator: coordinator, probe: probe, scheduler: scheduler?.value)
            hub.startRecording()
            return NIOLoopBound(hub, eventLoop: eventLoop)
        }.get()
    }

    /// Starts to record decisions and events.
    private func startRecording() {
        // The subscription is never cancelled, so it must not retain the hub.
        _ = coordinator.follow { [weak self] message, event in self?.eventReceived(message, event) }
        sampler = scheduleRepeated(every: .seconds(1)) { [weak self] in self?.sample() }
    }

    deinit {
        sampler?.cancel()
        ticker?.cancel()
    }

    private func eventReceived(_ message: EventMessage, _ event: InterlockEvent<EventPayload>?) {
        events.record(message, event) { coordinator.hasService($0) }
    }

    private func scheduleRepeated(every interval: TimeAmount, _ action: @escaping () -> Void) -> RepeatedTask {
        let action = NIOLoopBound(action, eventLoop: eventLoop)
        return eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in action.value() }
    }

    /// Records the decisions of the last second.
    func sample() {
        let counts = coordinator.counts
        rates.sample(counts)
        events.removeAll { counts.services[$0] == nil }
    }

    // MARK: Single frames

    /// Renders all parts of a view as one JSON object on one line.
    /// - Parameter show: a closure that is called once, after the pending reads of the parts from Redis have ended.
    /// - Throws: `InterlockError` if the view's service is not configured.
    func frame(of view: LiveView, show: @escaping (ByteBuffer) -> Void) throws(InterlockError) {
        let topics = try self.topics(of: view)
        readDueTopics(topics)
        var unreadCount = topics.count
        for topic in topics {
            topic.whenRead { [self] in
                unreadCount -= 1
                guard unreadCount == 0 else { return }
                show(frame(of: view, topics))
            }
        }
        dropTopics(except: topics)
    }

    private func frame(of view: LiveView, _ topics: [LiveTopic]) -> ByteBuffer {
        var frame = ByteBuffer()
        frame.writeString("{\"now_ms\":\(coordinator.wallTimeMilliseconds())")
        for topic in topics {
            parts.refresh(topic)
            frame.writeString(",\"\(topic.part.name)\":")
            if let json = topic.json { frame.writeImmutableBuffer(json) }
        }
        frame.writeString("}")
        return frame
    }

    private func topics(of view: LiveView) throws(InterlockError) -> [LiveTopic] {
        if case .service(let name) = view { _ = try coordinator.service(name.text).get() }
        let now = coordinator.now()
        return view.parts.map { part in
            let topic = topics[part] ?? LiveTopic(part, now: now)
            topics[part] = topic
            topic.requestedAt = now
            return topic
        }
    }

    /// Drops topics without followers if there are too many.
    private func dropTopics(except keptTopics: [LiveTopic]) {
        guard topics.count > Self.maximumTopics else { return }
        let keptParts = Set(followers.values.flatMap { $0.topics.map(\.part) } + keptTopics.map(\.part))
        let unusedTopics = topics.values.filter { !keptParts.contains($0.part) }.sorted {
            $0.requestedAt < $1.requestedAt
        }
        for topic in unusedTopics.prefix(topics.count - Self.maximumTopics) { topics[topic.part] = nil }
    }

    // MARK: Following

    /// Sends a stream of events: first `hello` and every part, then each part that changes.
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
        budget.consoleCount = followers.count
        responder.onDisconnect { [weak self] in
            self?.followerLeft(id)
            responder.abort()
        }
        follower.sendHello(nowMilliseconds: coordinator.wallTimeMilliseconds())
        readDueTopics(follower.topics)
        for topic in follower.topics { parts.refresh(topic) }
        follower.sendUpdates()
        if ticker == nil, followers[id] != nil { ticker = scheduleRepeated(every: Self.tick) { [weak self] in self?.runTick() } }
    }

    private func followerLeft(_ id: ObjectIdentifier) {
        // Otherwise, every letter that is typed into the search field would leave a postponed read behind.
        for topic in followers.removeValue(forKey: id)?.topics ?? [] { topic.cancelPostponedRead() }
        budget.consoleCount = followers.count
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
        round.append(contentsOf: followedTopics.map(Step.refresh))
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
                follower.sendHello(nowMilliseconds: coordinator.wallTimeMilliseconds())
                follower.sendUpdates()
                follower.sendHeartbeatIfQuiet(after: Self.heartbeatTicks)
            }
            guard slices.mayContinue else { break }
        }
        if !round.isEmpty { continueRoundLater() }
    }

    /// The topics of all followers, without duplicates.
    private var followedTopics: Dictionary<LivePart, LiveTopic>.Values {
        var topics: [LivePart: LiveTopic] = [:]
        for follower in followers.values { for topic in follower.topics { topics[topic.part] = topic } }
        return topics.values
    }

    /// Starts the due reads of followed, postponed and requested topics, as far as the budget allows.
    private func readDueTopics(_ requestedTopics: [LiveTopic] = []) {
        let now = coordinator.now()
        var candidates: [LivePart: LiveTopic] = [:]
        // If the budget is spent, only the requested topics are visited, so that they record the postponement.
        if budget.beginRead(now: now) {
            for topic in followedTopics { candidates[topic.part] = topic }
            for topic in topics.values
            where topic.reading.isPostponed
                && now < topic.requestedAt.advanced(byMilliseconds: Self.postponedReadLifetimeMilliseconds)
            {
                candidates[topic.part] = topic
            }
        }
        for topic in requestedTopics { candidates[topic.part] = topic }
        for topic in LiveTopic.sortedByDueTime(candidates.values) { parts.read(topic, now: now) }
    }
}

/// A console that follows a view.
private final class LiveFollower {
    private let call: HTTPCall
    private let responder: HTTPResponder
    let topics: [LiveTopic]
    /// The version of each topic that was last sent.
    private var sentVersions: [Int]
    /// The number of ticks since the last write.
    private var quietTickCount = 0
    /// The number of ticks for which the client has read nothing.
    private var stalledTickCount = 0
    private var tickCountSinceHello = 0
    /// The role that was last sent.
    private var role: APIKey.Role?

    /// The number of ticks after which a client that reads nothing is disconnected: 30 seconds.
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
        responder.hasEnded || call.shutdown.hasFired || caller == nil || stalledTickCount > Self.maximumStalledTicks
    }

    /// Ends the stream. If the client is not reading, closes its connection.
    func end() { if stalledTickCount > 0 { responder.abort() } else { responder.writeEnd(nil) } }

    /// Sends the caller's name, the role and the time: at the start, whenever the role changes, and once a minute,
    /// because clocks may be adjusted.
    func sendHello(nowMilliseconds: Int64) {
        tickCountSinceHello += 1
        guard let caller, responder.isWritable,
            caller.role != role || tickCountSinceHello > Self.maximumTicksWithoutHello
        else {
            return
        }
        role = caller.role
        tickCountSinceHello = 0
        let fields: KeyValuePairs<String, JSONValue> = [
            "caller": .string(caller.name), "now_ms": .integer(nowMilliseconds), "role": .string(caller.role.rawValue),
        ]
        write(ByteBuffer(string: ServerSentEvents.event("hello", fields)))
    }

    /// Sends the changed topics, if the client is reading.
    func sendUpdates() {
        guard responder.isWritable else { return stalledTickCount += 1 }
        stalledTickCount = 0
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

    /// Sends a comment if no event was sent for some ticks.
    func sendHeartbeatIfQuiet(after tickCount: Int) {
        quietTickCount += 1
        if quietTickCount > tickCount, responder.isWritable { write(ByteBuffer(string: ":\n\n")) }
    }

    private func write(_ bytes: ByteBuffer) {
        quietTickCount = 0
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
