internal import Interlock
internal import InterlockCore
internal import NIOHTTP1

/// The stream of the fleet's events.
struct EventRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] {
        [HTTPRoute(.GET, "/v1/events", servesHead: false, inTask: follow)]
    }

    private func follow(_ call: HTTPCall) async throws -> HTTPResponse {
        let stream = ServerSentEvents(call: call)
        // The subscription comes before the response, so a client that has seen the response's head misses no event.
        let signals = ServerSentEvents.signals(for: EventMessage.self)
        let registration = coordinator.events.json.subscribe(into: signals) { .event($0) }
        var response = ServerSentEvents.response(.ok)
        response.ifUndelivered = { registration.end() }
        response.body = .stream { writer in
            defer { registration.end() }
            try await writer.write(": the events of this fleet, from now on\n\n")
            try await stream.forward(signals, to: writer) { ServerSentEvents.event($0.type, json: $0.json) }
        }
        return response
    }
}
