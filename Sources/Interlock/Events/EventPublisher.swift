internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// Publishes the events of limits, which no script publishes. Confined to the coordinator's event loop.
///
/// Local followers get each event exactly once, even if Redis is unreachable: directly from here. The copy that arrives
/// on the channel is ignored.
final class EventPublisher {
    /// The maximum number of messages in progress. Further events are dropped, so that limits with windows as short as
    /// a millisecond do not flood Redis.
    private static let maximumInFlight = 64

    private let runtime: CoordinatorRuntime
    private let feed: EventFeed
    private var inFlightCount = 0

    init(runtime: CoordinatorRuntime, feed: EventFeed) {
        self.runtime = runtime
        self.feed = feed
    }

    func publish(_ event: LimitEvent) {
        guard inFlightCount < Self.maximumInFlight else { return runtime.metrics.eventsDropped.increment() }
        inFlightCount += 1
        // Deferred until the decision has been applied, because a follower may cancel calls that wait for it.
        runtime.eventLoop.assumeIsolated().execute { [self] in send(event) }
    }

    private func send(_ event: LimitEvent) {
        let start = event.json(origin: runtime.id, database: runtime.database)
        runtime.pipeline.send(PublishScript(channel: runtime.keys.events, start: start)) { [self] result in
            inFlightCount -= 1
            let milliseconds =
                if case .success(let redisMilliseconds) = result {
                    redisMilliseconds
                } else {
                    runtime.wallClock.milliseconds()
                }
            feed.publish(
                ReceivedEvent(
                    message: EventMessage(type: event.kind.rawValue, json: "\(start)\(milliseconds)}"),
                    event: InterlockEvent(
                        origin: runtime.id, database: runtime.database, atMilliseconds: milliseconds,
                        payload: .limit(event))))
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
