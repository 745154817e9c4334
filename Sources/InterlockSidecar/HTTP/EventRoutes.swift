internal import HTTPTypes
internal import HummingbirdCore
internal import Interlock
internal import NIOCore

/// The fleet's events as they happen.
struct EventRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] {
        [HTTPRoute(.get, "/v1/events", answersHead: false, answer: follow)]
    }

    private func follow(_ call: HTTPCall) async throws -> HTTPAnswer {
        let stream = ServerSentEvents(peer: try await call.peer(), channel: call.channel)
        // Followed before the answer begins: whoever has seen its head misses nothing.
        let events = await coordinator.events()
        var answer = ServerSentEvents.answer(.ok)
        answer.body = ResponseBody { writer in
            try await writer.write(ByteBuffer(string: ": the events of this fleet, from now on\n\n"))
            try await stream.forward(events, to: &writer) { json in
                ServerSentEvents.event(InterlockEvent(json: Array(json.utf8))?.typeName ?? "message", json: json)
            }
            try await writer.finish(nil)
        }
        return answer
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
