internal import Interlock
internal import InterlockCore
internal import NIOHTTP1

/// The stream of the fleet's events.
struct EventRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] {
        [HTTPRoute(.GET, "/v1/events", answersHead: false, answer: follow)]
    }

    private func follow(_ call: HTTPCall) async throws -> HTTPAnswer {
        let stream = ServerSentEvents(call: call)
        // Subscribes before the answer begins: a client that has seen the answer's head misses no event.
        let signals = ServerSentEvents.signals(for: EventMessage.self)
        let registration = coordinator.events.json.subscribe(into: signals) { .event($0) }
        var answer = ServerSentEvents.answer(.ok)
        answer.ifUndelivered = { registration.end() }
        answer.body = .stream { writer in
            defer { registration.end() }
            try await writer.write(": the events of this fleet, from now on\n\n")
            try await stream.forward(signals, to: writer) { ServerSentEvents.event($0.type, json: $0.json) }
        }
        return answer
    }
}
