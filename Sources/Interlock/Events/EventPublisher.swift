internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// Tells the fleet what this sidecar decides without a script that could tell it. Confined to the coordinator's event loop.
///
/// Whoever follows the events here is told also when Redis cannot be reached, and once: what comes back over the channel
/// is passed over.
final class EventPublisher {
    /// The most messages on their way; those beyond are not told. Windows may be a millisecond long.
    private static let mostUnderWay = 64

    private let runtime: CoordinatorRuntime
    private let feed: EventFeed
    private var underWay = 0

    init(runtime: CoordinatorRuntime, feed: EventFeed) {
        self.runtime = runtime
        self.feed = feed
    }

    func publish(_ event: LimitEvent) {
        guard underWay < Self.mostUnderWay else { return runtime.metrics.eventsDropped.increment() }
        underWay += 1
        // Not before the decision has been carried out: a follower may end what waits for it.
        runtime.eventLoop.assumeIsolated().execute { [self] in send(event) }
    }

    private func send(_ event: LimitEvent) {
        let start = event.json(origin: runtime.id, database: runtime.database)
        runtime.pipeline.send(PublishScript(channel: runtime.keys.events, start: start)) { [self] result in
            underWay -= 1
            let time = if case .success(let time) = result { time } else { runtime.wallClock.milliseconds() }
            feed.publish(
                ReceivedEvent(
                    message: EventMessage(type: event.kind.rawValue, json: "\(start)\(time)}"),
                    event: InterlockEvent(
                        origin: runtime.id, database: runtime.database, atMilliseconds: time, payload: .limit(event))))
        }
    }
}

/// See `publish.lua`. The reply is the time of the event, in milliseconds of the Unix epoch.
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
