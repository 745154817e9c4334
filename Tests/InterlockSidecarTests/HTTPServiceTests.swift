import Interlock
import InterlockProcesses
import RedisClient
import Testing

@testable import SidecarListeners

@Suite("HTTP API: services, permits and events")
struct HTTPServiceTests {
    @Test("A permit is granted, and its outcome is accepted once")
    func permitOutcomeIsAcceptedOnce() async throws {
        try await HTTPTestAPI.with { api in
            let grant = try await api.client.send("POST", "/v1/services/catalog/permits", "{}")
            #expect(grant.status == 201)
            #expect(grant.text("state") == "closed")
            let id = try #require(grant.text("permit"))
            let report = #"{"outcome": "ok", "latency_ms": 12, "status": 200}"#
            let reported = try await api.client.send("POST", "/v1/services/catalog/permits/\(id)", report)
            #expect(reported.status == 200)
            #expect(reported.text("state") == "closed")
            try await api.expect(400, "POST", "/v1/services/catalog/permits/\(id)", report)
            try await api.expect(400, "POST", "/v1/services/catalog/permits/zz", report)
        }
    }

    @Test("The fleet is listed under the same names by both APIs")
    func fleetIsListedUnderSameNamesByBothAPIs() async throws {
        try await HTTPTestAPI.with { api in
            let reply = try await api.client.send("GET", "/v1/fleet")
            #expect(reply.status == 200)
            #expect(reply.body.contains(#""id":"\#(api.coordinator.id)""#), "\(reply.body)")
            #expect(reply.body.contains(#""host":"test""#) && reply.body.contains(#""started_ms":"#), "\(reply.body)")
        }
        try await HTTPTestAPI.with { api in
            let reply = try await api.client.send("GET", "/v1/redis")
            #expect(reply.status == 200)
            #expect(reply.body.contains(#""topology":"single""#) && reply.body.contains(#""primary":null"#), "\(reply.body)")
            #expect(
                reply.body.contains(#""up":true"#) && reply.body.contains(#""maxmemory_policy":"noeviction""#), "\(reply.body)")
        }
        try await RESPTestAPI.with { api in
            let sidecars = try await api.send("FLEET.LIST").array ?? []
            #expect(sidecars.count == 1)
            let fields = sidecars.first?.array?.map { $0.text ?? "\($0.integer ?? 0)" } ?? []
            #expect(fields.prefix(4) == ["id", api.coordinator.id, "host", "test"])
            #expect(Set(fields).isSuperset(of: ["pid", "version", "started_ms", "configuration"]))
        }
    }

    @Test("A service is shown with its probes, if it has any")
    func serviceIsShownWithProbes() async throws {
        let lastProbe = ProbeReading.Probe(
            finding: .bad("status \(503), expected 200..399"), atMilliseconds: 1_795_237_271_000, duration: .milliseconds(12))
        let reading = ProbeReading(service: "catalog", prober: .elected, lastProbe: lastProbe, failureCount: 3)
        try await HTTPTestAPI.with(probe: { $0 == "catalog" ? reading : nil }) { api in
            let probe =
                #""probe":{"at_ms":1795237271000,"duration_ms":12,"failures":3,"finding":"bad","prober":"elected","#
                + #""reason":"status 503, expected 200..399","successes":0}"#
            for path in ["/v1/services", "/v1/services/catalog"] {
                let reply = try await api.client.send("GET", path)
                #expect(reply.body.contains(probe), "\(reply.body)")
            }
        }
        let untried = ProbeReading(service: "catalog", prober: .another)
        try await HTTPTestAPI.with(probe: { _ in untried }) { api in
            let reply = try await api.client.send("GET", "/v1/services/catalog")
            #expect(reply.body.contains(#""finding":null,"prober":"another","reason":null"#), "\(reply.body)")
        }
        try await HTTPTestAPI.with { api in
            let reply = try await api.client.send("GET", "/v1/services/catalog")
            #expect(reply.body.contains(#""probe":null"#), "\(reply.body)")
        }
    }

    @Test("A permit beyond the limit is refused with 429, and one from an open breaker with 503")
    func permitBeyondLimitIsRefusedWith429() async throws {
        try await HTTPTestAPI.with { api in
            for _ in 0..<2 { _ = try await api.client.send("POST", "/v1/services/catalog/permits") }
            let limited = try await api.client.send("POST", "/v1/services/catalog/permits")
            #expect(limited.status == 429)
            #expect(limited.text("reason") == "limited")
            #expect(limited.headers["retry-after"] != nil)

            try await api.expect(200, "PUT", "/v1/services/catalog/override", #"{"state": "open"}"#)
            let open = try await api.client.send("POST", "/v1/services/catalog/permits")
            #expect(open.status == 503)
            #expect(open.text("code") == "open")
            #expect(open.text("state") == "open")
        }
    }

    @Test("An override is shown with the service, and can be withdrawn")
    func overrideIsShownWithService() async throws {
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.ops, HTTPTestAPI.web]) { api in
            let ops = ["X-Api-Key": "ops-secret"]
            let path = "/v1/services/catalog/override"
            try await api.expect(403, "PUT", path, #"{"state": "open"}"#, headers: ["X-Api-Key": "web-secret"])
            let open = try await api.client.send("PUT", path, #"{"state": "open"}"#, headers: ops)
            #expect(open.text("state") == "open")
            #expect(open.text("forced") == "open")
            let response = try await api.client.send("GET", "/v1/services/catalog", headers: ops)
            #expect(response.json == open.json)
            let list = try await api.client.send("GET", "/v1/services", headers: ops)
            #expect(list.json["services"] == .array([.object(response.json)]))
            let auto = try await api.client.send("PUT", path, #"{"state": "auto"}"#, headers: ops)
            #expect(auto.text("state") == "closed")
            #expect(auto.json["forced"] == .null)
            try await api.expect(400, "PUT", path, #"{"state": "OPEN"}"#, headers: ops)
        }
    }

    @Test("The event stream reports an override")
    func eventStreamReportsOverride() async throws {
        try await HTTPTestAPI.with { api in
            try await api.waitUntilSubscribed()
            let client = api.client
            try await client.follow("GET", "/v1/events") { received in
                if received.contains("event: breaker\ndata: {") {
                    #expect(received.lowercased().contains("content-type: text/event-stream"))
                    return true
                }
                // The stream has begun, so it reports this change, perhaps after events of other origins.
                if received.contains("from now on") {
                    let forced = try await client.send("PUT", "/v1/services/catalog/override", #"{"state": "open"}"#)
                    #expect(forced.status == 200)
                }
                return false
            }
        }
    }

    @Test("An event stream ends when the sidecar shuts down")
    func shutdownEndsStreams() async throws {
        try await HTTPTestAPI.with { api in
            let client = api.client
            let shutDown = api.shutDown
            let request = HTTPTestClient.request("GET", "/v1/events", nil, headers: [:], port: client.port, closing: false)
            let response = try await client.exchange(request) { received in
                if received.contains("from now on") { await shutDown() }
            }
            #expect(response.hasSuffix("0\r\n\r\n"))
        }
    }
}
