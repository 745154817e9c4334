internal import HTTPTypes
internal import HummingbirdCore
internal import Interlock
internal import NIOCore
internal import ServiceLifecycle

/// The fleet's events as server-sent events (WHATWG HTML, section 9.2).
struct EventRoutes {
    let coordinator: Coordinator

    /// A comment keeps proxies from closing a quiet stream, and finds out that a client is gone.
    static let heartbeat: Duration = .seconds(15)
    /// How long a client that does not read may hold up the shutdown.
    private static let patienceAtShutdown: TimeAmount = .seconds(1)

    private enum Signal: Sendable {
        case event(String)
        case heartbeat
    }

    var routes: [HTTPRoute] {
        [HTTPRoute(.get, "/v1/events", answersHead: false, answer: follow)]
    }

    private func follow(_ call: HTTPCall) async throws -> HTTPAnswer {
        let peer = try await call.peer()
        let channel = call.channel
        // Followed before the answer begins: whoever has seen its head misses nothing.
        let events = await coordinator.events()
        var answer = HTTPAnswer(.ok)
        answer.headers[.contentType] = "text/event-stream"
        answer.body = ResponseBody { writer in
            try await writer.write(ByteBuffer(string: ": the events of this fleet, from now on\n\n"))
            try await Self.forward(events, to: &writer, while: peer, on: channel)
            try await writer.finish(nil)
        }
        return answer
    }

    /// Writes until the client leaves or the sidecar goes down.
    @concurrent
    private static func forward(
        _ events: AsyncStream<String>, to writer: inout any ResponseBodyWriter, while peer: PeerPresence,
        on channel: any Channel
    ) async throws {
        let (signals, continuation) = AsyncStream.makeStream(of: Signal.self, bufferingPolicy: .bufferingNewest(256))
        let sources = Task {
            await withDiscardingTaskGroup { group in
                group.addTask {
                    for await event in events { continuation.yield(.event(event)) }
                }
                group.addTask {
                    while (try? await Task.sleep(for: heartbeat)) != nil { continuation.yield(.heartbeat) }
                }
                group.addTask {
                    guard (try? await gracefulShutdown()) != nil else { return }
                    continuation.finish()
                    channel.eventLoop.scheduleTask(in: patienceAtShutdown) { channel.close(promise: nil) }
                }
            }
        }
        let observer = peer.observe { continuation.finish() }
        defer {
            peer.forget(observer)
            sources.cancel()
        }
        for await signal in signals {
            try await writer.write(ByteBuffer(string: text(signal)))
        }
    }

    private static func text(_ signal: Signal) -> String {
        switch signal {
        case .heartbeat: ":\n\n"
        case .event(let json): "event: \(InterlockEvent(json: Array(json.utf8))?.typeName ?? "message")\ndata: \(json)\n\n"
        }
    }
}

extension InterlockEvent {
    /// The `type` of the event's JSON.
    fileprivate var typeName: String {
        switch payload {
        case .breaker: "breaker"
        case .lockBroken: "lock.broken"
        case .sidecarJoined: "fleet.joined"
        case .sidecarLeft: "fleet.left"
        }
    }
}
