internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// Publishes the events of decisions that no script can publish. Confined to the coordinator's event loop.
///
/// Local followers get each event exactly once, even if Redis is unreachable, because the copy that arrives on the
/// channel is ignored.
final class EventPublisher {
    /// The maximum number of messages in progress. Further events are dropped, so that limits with windows as short as
    /// a millisecond do not flood Redis.
    private static let maximumInFlight = 64

    private let runtime: CoordinatorRuntime
    private let feed: EventFeed
    private var inFlight = 0

    init(runtime: CoordinatorRuntime, feed: EventFeed) {
        self.runtime = runtime
        self.feed = feed
    }

    func publish(_ event: LimitEvent) {
        guard inFlight < Self.maximumInFlight else { return runtime.metrics.eventsDropped.increment() }
        inFlight += 1
        // Deferred until the decision was applied, because a follower may cancel calls that wait for it.
        runtime.eventLoop.assumeIsolated().execute { [self] in send(event) }
    }

    private func send(_ event: LimitEvent) {
        let start = event.json(origin: runtime.id, database: runtime.database)
        runtime.pipeline.send(PublishScript(channel: runtime.keys.events, start: start)) { [self] result in
            inFlight -= 1
            let time = if case .success(let time) = result { time } else { runtime.wallClock.milliseconds() }
            feed.publish(
                ReceivedEvent(
                    message: EventMessage(type: event.kind.rawValue, json: "\(start)\(time)}"),
                    event: InterlockEvent(
                        origin: runtime.id, database: runtime.database, atMilliseconds: time, payload: .limit(event))))
        }
    }
}

/// Publishes an event with the time of the server. See `publish.lua`. The reply is the time of the event, as Unix time
/// in milliseconds.
struct PublishScript: ScriptCommand {
    typealias Reply = Int64

    static let source = RedisScript(library: "publish")

    var channel: String
    /// The event's JSON up to the value of `at_ms`, its last field.
    var start: String

    var script: RedisScript { Self.source }
    var keyCount: Int { 0 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(channel)
        encoder.append(start)
    }
}
