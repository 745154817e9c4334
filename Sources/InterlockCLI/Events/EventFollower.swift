import Hiredis
import Interlock
import InterlockCore
import Logging
import NIOCore
import NIOPosix

/// Follows a sidecar's event channel, over one connection after another. Lives on its connection's event loop.
actor EventFollower {
    /// What there is to tell.
    enum Notice: Sendable {
        /// From here on nothing is missed while the connection lasts.
        case following
        case event(json: [UInt8])
        /// What happens until the next `following` is missed.
        case interrupted
    }

    /// What waits for the terminal. A slow one loses the oldest.
    nonisolated let notices = NewestBuffer<Notice>(capacity: 10_000)
    private nonisolated let eventLoop: any EventLoop
    private let subscriber: RedisSubscriber

    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    init(configuration: RedisConfiguration, channel: String) {
        eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        subscriber = RedisSubscriber(
            configuration: configuration, channels: [channel],
            environment: RedisEnvironment(eventLoop: eventLoop, logger: Logger(label: "interlock")))
    }

    func start() {
        subscriber.onSubscribed = { [notices] in notices.push(.following) }
        subscriber.onMessage = { [notices] _, payload in notices.push(.event(json: payload)) }
        subscriber.onDown = { [notices] _ in notices.push(.interrupted) }
        subscriber.start()
    }

    func close() async {
        notices.finish()
        // Closing cannot fail: the future is completed by this side alone.
        try? await subscriber.close().get()
    }
}

extension InterlockEvent<EventPayload> {
    /// The event in one line, for people.
    var line: String {
        "\(ReadableText.moment(epochMilliseconds: atMilliseconds))  \(sentence)".printable
    }

    private var sentence: String {
        switch payload {
        case .breaker(let event):
            "breaker \(event.service): \(event.breaker.state.rawValue)" + Self.reasons(of: event.breaker)
        case .lock(let event):
            switch event.kind {
            case .broken: "lock \(event.lock): broken" + (event.by.isEmpty ? "" : " by \(event.by)")
            }
        case .limit(let event):
            "limit \(event.limit) of \(event.service)" + (event.subject.map { " for \($0)" } ?? "")
                + ": \(Self.finding(event)), \(event.used) of \(event.capacity) used (seen by \(origin))"
        case .fleet(let event):
            switch event.kind {
            case .joined: "sidecar \(event.sidecar): joined the fleet"
            case .left: "sidecar \(event.sidecar): left the fleet"
            }
        }
    }

    private static func finding(_ event: LimitEvent) -> String {
        switch event.kind {
        case .near: "nearly reached"
        case .reached: "reached"
        case .shadow: "would have refused a call"
        }
    }

    private static func reasons(of breaker: BreakerSnapshot) -> String {
        var reasons: [String] = []
        if let forced = breaker.forced {
            reasons.append("forced \(forced.rawValue)")
        } else if !breaker.cause.isEmpty {
            reasons.append(breaker.cause)
        }
        if !breaker.reason.isEmpty { reasons.append(breaker.reason) }
        let end = breaker.forced == nil ? breaker.untilMilliseconds : breaker.forcedUntilMilliseconds
        if end > 0 { reasons.append("until \(ReadableText.moment(epochMilliseconds: end))") }
        if !breaker.by.isEmpty { reasons.append("by \(breaker.by)") }
        return reasons.isEmpty ? "" : " (\(reasons.joined(separator: ", ")))"
    }
}

/// `SUBSCRIBE channel`: whether the sidecar has that channel.
struct FollowEvents: SidecarCommand {
    var channel: String

    var purpose: String { "events" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("SUBSCRIBE")
        encoder.append(channel)
    }

    func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.array?.first?.text == "subscribe" else { throw reply.unexpected(for: "SUBSCRIBE") }
    }
}
