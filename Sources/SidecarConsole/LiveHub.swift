internal import DequeModule
package import Interlock
internal import InterlockCore
package import NIOCore
internal import NIOHTTP1
package import SidecarListeners
internal import SidecarSettings

/// What consoles show, kept up to date once for all of them. Confined to the coordinator's event loop.
///
/// While somebody follows, it looks ten times a second at what this sidecar has done, and tells each follower the parts that have
/// changed, and of each the newest state alone: a slow one misses what was in between. What only Redis knows is read seldom, and only
/// what is in view.
package final class LiveHub {
    /// Those who follow at a time.
    static let mostFollowers = 64
    /// Topics that nobody follows, for those who ask again and again.
    private static let mostTopics = 64
    private static let tick = TimeAmount.milliseconds(100)
    /// The time for which a postponed read stays wanted after its last request, in milliseconds.
    private static let patience: Int64 = 3000
    /// After so many ticks without news a comment tells that this sidecar is there.
    private static let heartbeat = 20

    private let eventLoop: any EventLoop
    private let calls: CoordinatorCalls
    private let parts: LiveParts
    private let rates = RateHistory()
    private let events = EventHistory()
    private let budget = ReadBudget()
    /// Also those that nobody follows any more: what was known is known.
    private var topics: [LivePart: LiveTopic] = [:]
    private var followers: [ObjectIdentifier: LiveFollower] = [:]
    /// The steps of this round that are left. A round that finds the last one unfinished is skipped: the loop is busy.
    private var round: Deque<Step> = []
    /// Consoles are brought up to date in slices, all of them together as one connection.
    private let turn: ClientTurn
    private var ticker: RepeatedTask?
    private var sampler: RepeatedTask?

    private enum Step {
        case refresh(LiveTopic)
        case tell(ObjectIdentifier)
    }

    /// - Parameters:
    ///   - probe: what is known of a service's probes.
    ///   - turns: shares the event loop's time with clients; `nil`: nobody else has part in it.
    package init(
        coordinator: Coordinator, probe: @escaping ProbeReadings.Lookup = { _ in nil }, turns: ClientTurns? = nil
    ) {
        eventLoop = coordinator.eventLoop
        turn = ClientTurn(turns ?? ClientTurns(of: coordinator))
        calls = coordinator.callsOnEventLoop()
        parts = LiveParts(calls: calls, probe: probe, rates: rates, events: events, budget: budget)
    }

    /// Makes one where it lives, which begins to remember what is decided.
    package static func begun(
        for coordinator: Coordinator, probe: @escaping ProbeReadings.Lookup = { _ in nil },
        turns: NIOLoopBound<ClientTurns>? = nil
    ) async throws -> NIOLoopBound<LiveHub> {
        let eventLoop = coordinator.eventLoop
        return try await eventLoop.submit {
            let hub = LiveHub(coordinator: coordinator, probe: probe, turns: turns?.value)
            hub.begin()
            return NIOLoopBound(hub, eventLoop: eventLoop)
        }.get()
    }

    private func begin() {
        // For as long as the coordinator lives; not the other way around.
        _ = calls.follow { [weak self] message, event in self?.heard(message, event) }
        sampler = repeated(every: .seconds(1)) { [weak self] in self?.sample() }
    }

    deinit {
        sampler?.cancel()
        ticker?.cancel()
    }

    private func heard(_ message: EventMessage, _ event: InterlockEvent<EventPayload>?) {
        events.heard(message, event) { if case .success = calls.service($0) { true } else { false } }
    }

    private func repeated(every pause: TimeAmount, _ action: @escaping () -> Void) -> RepeatedTask {
        let action = NIOLoopBound(action, eventLoop: eventLoop)
        return eventLoop.scheduleRepeatedTask(initialDelay: pause, delay: pause) { _ in action.value() }
    }

    /// Takes down what was decided in the last second.
    func sample() {
        let counts = calls.counts
        rates.sample(counts)
        events.keep { counts.services[$0] != nil }
    }

    // MARK: Once

    /// One frame: all parts of a view in one JSON object on one line.
    /// - Parameter show: called once, within the time that Redis has to answer.
    /// - Throws: `InterlockError`: what is asked for is not there.
    func frame(of view: LiveView, show: @escaping (ByteBuffer) -> Void) throws(InterlockError) {
        let topics = try self.topics(of: view)
        readInTurn(topics)
        var unread = topics.count
        for topic in topics {
            topic.whenRead { [self] in
                unread -= 1
                guard unread == 0 else { return }
                show(frame(of: view, topics))
            }
        }
        forgetOthers(than: topics)
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
            topic.lookedAt = now
            return topic
        }
    }

    private func forgetOthers(than kept: [LiveTopic]) {
        guard topics.count > Self.mostTopics else { return }
        let followed = Set(followers.values.flatMap { $0.topics.map(\.part) } + kept.map(\.part))
        let others = topics.values.filter { !followed.contains($0.part) }.sorted { $0.lookedAt < $1.lookedAt }
        for topic in others.prefix(topics.count - Self.mostTopics) { topics[topic.part] = nil }
    }

    // MARK: Following

    /// Answers with a stream of events: `hello`, then each part as it is and whenever it has changed.
    /// - Throws: `InterlockError`: what is asked for is not there, or there are too many who follow.
    func follow(_ view: LiveView, _ call: HTTPCall, _ reply: HTTPReply) throws(InterlockError) {
        guard followers.count < Self.mostFollowers else {
            throw InterlockError(
                .unavailable, "\(Self.mostFollowers) consoles already follow this sidecar; close one, or ask another")
        }
        let follower = LiveFollower(call: call, reply: reply, topics: try topics(of: view))
        forgetOthers(than: follower.topics)
        var answer = ServerSentEvents.answer(.ok)
        answer.body = .open
        guard reply(answer) else { return }
        let id = ObjectIdentifier(follower)
        followers[id] = follower
        budget.looking = followers.count
        reply.whenLeft { [weak self] in
            self?.left(id)
            reply.breakOff()
        }
        follower.greet(wall: calls.wallTime())
        readInTurn(follower.topics)
        for topic in follower.topics { parts.refresh(topic) }
        follower.tellNews()
        if ticker == nil, followers[id] != nil { ticker = repeated(every: Self.tick) { [weak self] in self?.tickNow() } }
    }

    private func left(_ id: ObjectIdentifier) {
        // Nobody waits for what was looked at last: a search that is being typed leaves one behind with each letter.
        for topic in followers.removeValue(forKey: id)?.topics ?? [] { topic.giveUp() }
        budget.looking = followers.count
        guard followers.isEmpty else { return }
        ticker?.cancel()
        ticker = nil
    }

    private func tickNow() {
        for (id, follower) in followers where follower.isToEnd {
            follower.end()
            left(id)
        }
        guard round.isEmpty else { return }
        readInTurn()
        round.append(contentsOf: followed.map(Step.refresh))
        round.append(contentsOf: followers.keys.map(Step.tell))
        goOnLater()
    }

    private func goOnLater() { turn.later { [weak self] in self?.goOn() } }

    /// Takes the steps that the slice has time for.
    private func goOn() {
        while let step = round.popFirst() {
            switch step {
            case .refresh(let topic): parts.refresh(topic)
            case .tell(let id):
                guard let follower = followers[id] else { continue }
                follower.greet(wall: calls.wallTime())
                follower.tellNews()
                follower.tellThatThereIsNone(after: Self.heartbeat)
            }
            guard turn.mayGoOn else { break }
        }
        if !round.isEmpty { goOnLater() }
    }

    /// Each once.
    private var followed: Dictionary<LivePart, LiveTopic>.Values {
        var topics: [LivePart: LiveTopic] = [:]
        for follower in followers.values { for topic in follower.topics { topics[topic.part] = topic } }
        return topics.values
    }

    /// Reads what is due from Redis, as far as it may: of what is followed, of what has been asked for and had to wait, and of these.
    private func readInTurn(_ asked: [LiveTopic] = []) {
        let now = calls.now()
        var due: [LivePart: LiveTopic] = [:]
        // Else they could not have their turn now; these are only told that they have to wait.
        if budget.hasRoom(now: now) {
            for topic in followed { due[topic.part] = topic }
            for topic in topics.values
            where topic.reading.isPutOff && now < topic.lookedAt.advanced(byMilliseconds: Self.patience) {
                due[topic.part] = topic
            }
        }
        for topic in asked { due[topic.part] = topic }
        for topic in LiveTopic.inTurn(due.values) { parts.read(topic, now: now) }
    }
}

/// Somebody who follows a view.
private final class LiveFollower {
    private let call: HTTPCall
    private let reply: HTTPReply
    let topics: [LiveTopic]
    /// The version of each topic that it was told.
    private var told: [Int]
    private var quietTicks = 0
    /// For so many ticks it has taken nothing.
    private var stalledTicks = 0
    private var ticksSinceGreeting = 0
    /// What it was told that it may do.
    private var role: APIKey.Role?

    /// After so many its place is another's: 30 s.
    private static let mostStalledTicks = 300
    /// A minute.
    private static let mostTicksWithoutGreeting = 600

    init(call: HTTPCall, reply: HTTPReply, topics: [LiveTopic]) {
        self.call = call
        self.reply = reply
        self.topics = topics
        told = Array(repeating: 0, count: topics.count)
    }

    private var caller: AccessControl.Caller? { call.access.current(call.caller) }

    /// The sidecar goes down, the key is there no more, or it does not read.
    var isToEnd: Bool {
        reply.isOver || call.shutdown.hasHappened || caller == nil || stalledTicks > Self.mostStalledTicks
    }

    func end() { if stalledTicks > 0 { reply.breakOff() } else { reply.writeEnd(nil) } }

    /// Tells who it is, what it may do and what time it is: at first, whenever that has changed, and once a minute, for clocks are set.
    func greet(wall: Int64) {
        ticksSinceGreeting += 1
        guard let caller, reply.isWritable, caller.role != role || ticksSinceGreeting > Self.mostTicksWithoutGreeting else {
            return
        }
        role = caller.role
        ticksSinceGreeting = 0
        write(
            ByteBuffer(
                string: ServerSentEvents.event(
                    "hello", ["caller": .text(caller.name), "now_ms": .integer(wall), "role": .text(caller.role.rawValue)])))
    }

    /// Tells what has changed, to one that takes it.
    func tellNews() {
        guard reply.isWritable else { return stalledTicks += 1 }
        stalledTicks = 0
        var news = ByteBuffer()
        for (place, topic) in topics.enumerated() where told[place] != topic.version {
            told[place] = topic.version
            guard let json = topic.json else { continue }
            news.writeString("event: \(topic.part.name)\ndata: ")
            news.writeImmutableBuffer(json)
            news.writeStaticString("\n\n")
        }
        if news.readableBytes > 0 { write(news) }
    }

    func tellThatThereIsNone(after ticks: Int) {
        quietTicks += 1
        if quietTicks > ticks, reply.isWritable { write(ByteBuffer(string: ":\n\n")) }
    }

    private func write(_ bytes: ByteBuffer) {
        quietTicks = 0
        reply.write(bytes)
        reply.flush()
    }
}

extension NIOLoopBound<LiveHub> {
    /// The hub as a source of views.
    package var source: LiveView.Source {
        { (view, show) throws(InterlockError) in try value.frame(of: view, show: show) }
    }
}
