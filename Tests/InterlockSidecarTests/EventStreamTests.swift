import Interlock
import InterlockProcesses
import NIOConcurrencyHelpers
import RedisClient
import Testing

@Suite("HTTP API: the event stream", .timeLimit(.minutes(2)))
struct EventStreamTests {
    @Test("The stream reports a limit that is reached, in the published JSON")
    func streamReportsReachedLimit() async throws {
        try await HTTPTestAPI.with { api in
            try await api.waitUntilSubscribed()
            try await api.client.follow("GET", "/v1/events") { received in
                guard let event = HTTPTestClient.event("limit.reached", in: received) else {
                    if received.contains("from now on"), !received.contains("limit.") {
                        for _ in 0..<3 { _ = try await api.client.send("POST", "/v1/limits/catalog/take", "{}") }
                    }
                    return false
                }
                #expect(event.integer("v") == 1)
                #expect(event.text("type") == "limit.reached")
                #expect(event.text("origin") == api.coordinator.id)
                #expect(event.integer("db") == 0)
                #expect(event.text("service") == "catalog")
                #expect(event.text("limit") == "10s")
                #expect(event.integer("capacity") == 2)
                #expect((event.integer("at_ms") ?? 0) > 1_600_000_000_000)
                return true
            }
        }
    }

    @Test("Unknown event types keep their names")
    func unknownTypes() async throws {
        try await HTTPTestAPI.with { api in
            try await api.waitUntilSubscribed()
            try await Self.followEvents(api) { publish in
                try await publish(#"{"v":1,"type":"weather.changed","origin":"x","db":0,"at_ms":1}"#)
            } until: { received in
                HTTPTestClient.event("weather.changed", in: received) != nil
            }
        }
    }

    @Test("A slow client loses the oldest events, is notified of their number, and stays connected")
    func slowClient() async throws {
        // The events exceed the buffers of the kernel for a connection, so the listener has to wait for its client.
        let padding = String(repeating: "x", count: 32 << 10)
        let count = 900
        try await HTTPTestAPI.with { api in
            try await api.waitUntilSubscribed()
            let otherSubscriber = api.coordinator.events.json.subscribe()
            try await Self.followEvents(api) { publish in
                for number in 1...count {
                    try await publish(
                        #"{"v":1,"type":"test.\#(number)","origin":"x","db":0,"at_ms":1,"padding":"\#(padding)"}"#)
                    // Redis disconnects a subscriber that falls far behind.
                    guard number.isMultiple(of: 50) else { continue }
                    for await event in otherSubscriber where event.type == "test.\(number)" { break }
                }
            } until: { received in
                // Only the end is searched, because searching everything on each receipt takes too long.
                HTTPTestClient.event("test.\(count)", in: String(received.suffix(4 * padding.utf8.count))) != nil
            } then: { received in
                let loss = HTTPTestClient.event("dropped", in: received)
                #expect((loss?.integer("dropped") ?? 0) > 0)
            }
        }
    }

    /// Follows the events and, once the stream has begun, lets `body` publish messages while nothing is read.
    private static func followEvents(
        _ api: HTTPTestAPI, body: @Sendable (_ publish: (String) async throws -> Void) async throws -> Void,
        until isEnough: @Sendable (_ received: String) -> Bool, then check: @Sendable (_ received: String) -> Void = { _ in }
    ) async throws {
        let redis = RedisClient(configuration: api.redis.configuration)
        try await redis.connect()
        let channel = api.coordinator.keys.events
        let hasBegun = NIOLockedValueBox(false)
        try await api.client.follow("GET", "/v1/events") { received in
            if !hasBegun.withLockedValue({ $0 }), received.contains("from now on") {
                hasBegun.withLockedValue { $0 = true }
                try await body { json in _ = try await redis.send(AnyCommand(["PUBLISH", channel, json])) }
            }
            guard isEnough(received) else { return false }
            check(received)
            return true
        }
        await redis.close()
    }
}
