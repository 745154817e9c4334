import FoundationEssentials
import Interlock
import InterlockCore
import InterlockProcesses
import NIOConcurrencyHelpers
import RedisClient
import Testing

@testable import SidecarConsole
@testable import SidecarListeners
@testable import SidecarSettings

/// Tests the console's page and stream on a real listener.
@Suite("Console")
struct ConsoleTests {
    private static let stream = ["Accept": "text/event-stream"]

    @Test("The page runs only its own script and style and cannot be framed")
    func policy() async throws {
        try await HTTPTestAPI.with { api in
            let page = try await api.client.send("GET", "/console")
            #expect(page.status == 200)
            #expect(page.headers["content-type"] == "text/html; charset=utf-8")
            #expect(page.headers["x-frame-options"] == "DENY")
            #expect(page.headers["cache-control"] == "no-store")
            let policy = try #require(page.headers["content-security-policy"])
            for (tag, directive) in [("script", "script-src"), ("style", "style-src")] {
                let start = try #require(page.body.firstRange(of: "<\(tag)>")?.upperBound)
                let end = try #require(page.body.firstRange(of: "</\(tag)>")?.lowerBound)
                let digest = Data(SHA256Digest(of: String(page.body[start..<end])).bytes).base64EncodedString()
                #expect(policy.contains("\(directive) 'sha256-\(digest)'"))
            }
            for word in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "connect-src 'self'"] {
                #expect(policy.contains(word))
            }
            #expect(!policy.contains("unsafe"))
            #expect(!page.body.contains("{{"))
            #expect(page.body.contains("data-keys=\"none\""))
        }
    }

    @Test("The page is public, its data needs a key, and pages of other sites can load neither")
    func pageIsPublicButDataNeedsKey() async throws {
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.ops, HTTPTestAPI.web]) { api in
            let page = try await api.client.send("GET", "/console")
            #expect(page.body.contains("data-keys=\"required\""))
            try await api.expect(401, "GET", "/v1/live")
            try await api.expect(200, "GET", "/v1/live", headers: ["X-Api-Key": "web-secret"])
            let otherOrigin = ["X-Api-Key": "web-secret", "Origin": "http://evil.example"]
            try await api.expect(403, "GET", "/v1/live", headers: otherOrigin)
            try await api.expect(403, "GET", "/console", headers: ["Sec-Fetch-Site": "cross-site"])
            try await api.expect(403, "POST", "/v1/locks/a/break", "{}", headers: ["X-Api-Key": "web-secret"])
        }
    }

    @Test("A frame has the parts of its view")
    func frameHasPartsOfView() async throws {
        try await HTTPTestAPI.with { api in
            try await api.expect(201, "POST", "/v1/locks/orders", #"{"ttl_ms":30000,"label":"<b>"}"#)
            try await api.expect(200, "POST", "/v1/limits/catalog/take", "{}")
            let parts = [
                "overview": ["sidecar", "redis", "fleet", "rates"], "locks": ["sidecar", "locks"],
                "lock&name=orders": ["sidecar", "lock", "grants"], "services": ["sidecar", "services"],
                "service&name=catalog": ["sidecar", "service", "limits", "minute"], "grants": ["sidecar", "grants"],
                "events": ["sidecar", "events"],
            ]
            for (view, names) in parts {
                let frame = try await api.client.send("GET", "/v1/live?view=\(view)")
                #expect(Set(frame.json.keys) == Set(names + ["now_ms"]), "\(view): \(frame.body)")
            }
            try await api.expect(404, "GET", "/v1/live?view=service&name=nobody")
            try await api.expect(400, "GET", "/v1/live?view=nothing")
            try await api.expect(400, "GET", "/v1/live?view=lock&name=a%20b")
            let matchingFrame = try await api.client.send("GET", "/v1/live?view=locks&search=rder")
            #expect(matchingFrame.body.contains(#""label":"<b>""#))
            let none = try await api.client.send("GET", "/v1/live?view=locks&search=%2A")
            #expect(none.body.contains(#""locks":[]"#))
        }
    }

    @Test("A frame shows which limit refuses calls, including limits per subject")
    func frameShowsWhichLimitRefusesCalls() async throws {
        let service = ServiceDefinition(
            name: "catalog",
            limits: [
                LimitDefinition(name: "all", limit: 100, window: .seconds(60)),
                LimitDefinition(name: "each", limit: 1, window: .seconds(60), isPerSubject: true),
            ])
        try await HTTPTestAPI.with(services: [service]) { api in
            for status in [200, 429, 429] {
                try await api.expect(status, "POST", "/v1/limits/catalog/take", #"{"subject":"tenant-7"}"#)
            }
            let frame = try await api.client.send("GET", "/v1/live?view=service&name=catalog")
            #expect(frame.body.contains(#""name":"each","per_subject":true,"refused":2"#), "\(frame.body)")
            #expect(frame.body.contains(#""name":"all","per_subject":false,"refused":0"#))
        }
    }

    @Test("Every lock appears in the paged list, however many other keys Redis has", arguments: [500, 100])
    func everyLockAppearsInPagedList(others: Int) async throws {
        try await HTTPTestAPI.with { api in
            let client = RedisClient(configuration: api.redis.configuration)
            try await client.connect()
            for number in 0..<240 {
                _ = try await client.send(AnyCommand(["SET", "interlock:lock:{job-\(number)}", "held", "PX", "600000"]))
            }
            for number in 0..<others { _ = try await client.send(AnyCommand(["SET", "interlock:fence:{job-\(number)}", "1"])) }
            await client.close()
            var listedNames: Set<JSONValue> = []
            var next: String? = "0"
            let deadline = ContinuousClock.now.advanced(by: .seconds(30))
            while let cursor = next {
                try #require(ContinuousClock.now < deadline)
                let frame = try await api.client.send("GET", "/v1/live?view=locks&cursor=\(cursor)")
                guard case .object(let page) = frame.json["locks"], case .array(let rows) = page["locks"],
                    case .string(let nextCursor) = page["cursor"]
                else { throw HTTPTestClient.NotHTTP(text: frame.body) }
                // The read budget is used up, so this page has not been read yet.
                if page["at_ms"] == .null { continue }
                for case .object(let lock) in rows { listedNames.insert(lock["name"] ?? .null) }
                next = nextCursor == "0" ? nil : nextCursor
                #expect(page["complete"] == .bool(next == nil))
            }
            #expect(listedNames.count == 240)
        }
    }

    @Test("A stream begins with the viewer and every part, and then sends changes")
    func streamBeginsWithViewerAndEveryPart() async throws {
        try await HTTPTestAPI.with { api in
            let isChanged = NIOLockedValueBox(false)
            try await api.client.follow("GET", "/v1/live?view=grants", headers: Self.stream) { received in
                if let first = HTTPTestClient.event("grants", in: received), isChanged.withLockedValue({ !$0 }) {
                    #expect(first.body == #"{"grants":[]}"#)
                    let hello = try #require(HTTPTestClient.event("hello", in: received))
                    #expect(hello.text("role") == "admin")
                    let head = try #require(received.firstRange(of: "event: hello")?.lowerBound)
                    #expect(try #require(received.firstRange(of: "event: sidecar")?.lowerBound) > head)
                    isChanged.withLockedValue { $0 = true }
                    try await api.expect(201, "POST", "/v1/locks/orders", #"{"ttl_ms":30000}"#)
                }
                return received.contains(#""name":"orders""#)
            }
        }
    }

    @Test("A busy lock client does not starve a console")
    func busyLockClientDoesNotStarveConsole() async throws {
        try await HTTPTestAPI.with { api in
            let isServed = NIOLockedValueBox(false)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    var number = 0
                    while !isServed.withLockedValue({ $0 }), !Task.isCancelled {
                        number += 1
                        try await api.expect(200, "GET", "/v1/live?view=lock&name=other-\(number)")
                    }
                }
                try await api.client.follow("GET", "/v1/live?view=lock&name=orders", headers: Self.stream) { received in
                    received.ranges(of: "event: lock\n").count >= 8
                }
                isServed.withLockedValue { $0 = true }
                try await group.waitForAll()
            }
        }
    }

    @Test("Viewers of the same view share its cost in Redis")
    func viewersOfSameViewShareCostInRedis() async throws {
        try await HTTPTestAPI.with { api in
            try await api.expect(201, "POST", "/v1/locks/orders", #"{"ttl_ms":30000}"#)
            let client = RedisClient(configuration: api.redis.configuration)
            try await client.connect()
            _ = try await client.send(AnyCommand(["CONFIG", "RESETSTAT"]))
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<10 {
                    group.addTask {
                        try await api.client.follow("GET", "/v1/live?view=lock&name=orders", headers: Self.stream) { received in
                            received.ranges(of: "event: lock\n").count >= 4
                        }
                    }
                }
                try await group.waitForAll()
            }
            let info = try await client.send(AnyCommand(["INFO", "commandstats"])).text ?? ""
            let line = info.split(separator: "\r\n").first { $0.hasPrefix("cmdstat_evalsha:calls=") } ?? ""
            let calls = Int(line.dropFirst("cmdstat_evalsha:calls=".count).prefix { $0.isNumber }) ?? 0
            // Separate reads would make 40 calls. The total also includes the sidecar's background calls.
            #expect(calls < 20, "\(line)")
            await client.close()
        }
    }

    @Test("A stream ends when its key is removed or the sidecar shuts down")
    func ends() async throws {
        try await HTTPTestAPI.with { api in
            let isDown = NIOLockedValueBox(false)
            let response = try await api.client.exchange(
                HTTPTestClient.request("GET", "/v1/live", nil, headers: Self.stream, port: api.client.port, closing: true)
            ) { received in
                guard received.contains("event: rates"), isDown.withLockedValue({ !$0 }) else { return }
                isDown.withLockedValue { $0 = true }
                await api.shutDown()
            }
            // The final chunk marks the answer as complete.
            #expect(response.hasSuffix("0\r\n\r\n"))
        }
    }

    @Test("At most 64 consoles are served at a time")
    func bound() async throws {
        try await HTTPTestAPI.with { api in
            let count = NIOLockedValueBox(0)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<LiveHub.maximumFollowers {
                    group.addTask {
                        let isCounted = NIOLockedValueBox(false)
                        try await api.client.follow("GET", "/v1/live?view=grants", headers: Self.stream) { received in
                            if received.contains("event: hello"), isCounted.withLockedValue({ !$0 }) {
                                isCounted.withLockedValue { $0 = true }
                                count.withLockedValue { $0 += 1 }
                            }
                            return received.contains(#""name":"orders""#)
                        }
                    }
                }
                try await eventually("all viewers are connected") { count.withLockedValue { $0 } == LiveHub.maximumFollowers }
                let refusal = try await api.client.send("GET", "/v1/live", headers: Self.stream)
                #expect(refusal.status == 503)
                #expect(refusal.text("detail")?.contains("64 consoles") == true)
                // A single frame is served even when no further stream is accepted.
                try await api.expect(200, "GET", "/v1/live")
                try await api.expect(201, "POST", "/v1/locks/orders", #"{"ttl_ms":30000}"#)
                try await group.waitForAll()
            }
            try await eventually("the slots of disconnected viewers are free") {
                let count = NIOLockedValueBox(0)
                try? await api.client.follow("GET", "/v1/live", headers: Self.stream) { received in
                    if received.contains("event: hello") { count.withLockedValue { $0 = 1 } }
                    return !received.isEmpty
                }
                return count.withLockedValue { $0 } == 1
            }
        }
    }

    @Test("During a Redis outage, a frame arrives in time, reports the outage and shows the last known state")
    func redisUnreachable() async throws {
        try await HTTPTestAPI.with { api in
            try await api.expect(201, "POST", "/v1/locks/orders", #"{"ttl_ms":30000}"#)
            try await api.expect(200, "GET", "/v1/live?view=lock&name=orders")
            await api.redis.stop()
            try await eventually("the sidecar has noticed the change") {
                let frame = try await api.client.send("GET", "/v1/live?view=lock&name=orders")
                guard case .object(let sidecar) = frame.json["sidecar"], case .object(let redis) = sidecar["redis"],
                    case .object(let lock) = frame.json["lock"]
                else { return false }
                return redis["up"] == .bool(false) && lock["failure"] != .null && lock["holders"] == .integer(1)
            }
        }
    }
}
