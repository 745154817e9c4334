import FoundationEssentials
import Glibc
import InterlockProcesses
import Testing

@Suite("Metrics of a sidecar", .serialized, .timeLimit(.minutes(1)))
struct SidecarMetricsTests {
    private static func services(_ names: String...) -> String {
        "services: { \(names.map { "\($0): { limits: [ { limit: 3, per: 1h } ], breaker: {} }" }.joined(separator: ", ")) }"
    }

    @Test("The series of a removed service disappear")
    func removedService() async throws {
        try await SidecarProcess.withSidecar(configuration: Self.services("staying", "leaving")) { sidecar in
            try await sidecar.send(["LIMIT.TAKE", "staying"], ["LIMIT.TAKE", "leaving"])
            #expect(try await sidecar.get("/metrics").contains(#"service="leaving""#))
            try Data("redis: { timeout: 10s }\n\(Self.services("staying"))".utf8).write(
                to: URL(filePath: "\(sidecar.folder)/interlock.yaml"))
            sidecar.process.send(signal: SIGHUP)
            try await eventually(within: .seconds(10), "no series of the removed service remains") {
                try await !sidecar.get("/metrics").contains(#"service="leaving""#)
            }
            #expect(try await sidecar.get("/metrics").contains(#"interlock_breaker_state{service="staying",state="closed"} 1"#))
        }
    }

    @Test("A breaker's forced state has its own series until it ends")
    func forcedBreaker() async throws {
        try await SidecarProcess.withSidecar(configuration: Self.services("catalog")) { sidecar in
            func line(_ state: String, _ value: Int) -> String {
                #"interlock_breaker_forced{service="catalog",state="\#(state)"} \#(value)"# + "\n"
            }
            try await sidecar.send(["BREAKER.FORCE", "catalog", "DISABLED"])
            let forced = try await sidecar.get("/metrics")
            for (state, value) in [("disabled", 1), ("open", 0), ("closed", 0)] { #expect(forced.contains(line(state, value))) }
            #expect(forced.contains(#"interlock_breaker_state{service="catalog",state="closed"} 1"#))
            try await sidecar.send(["BREAKER.FORCE", "catalog", "AUTO"])
            #expect(try await sidecar.get("/metrics").contains(line("disabled", 0)))
        }
    }

    @Test("RESP commands and errors, refused requests and Redis commands are counted")
    func commandsAndErrorsAreCounted() async throws {
        try await SidecarProcess.withSidecar(configuration: Self.services("catalog")) { sidecar in
            try await sidecar.send(
                ["LIMIT.TAKE", "catalog"], ["LIMIT.TAKE", "catalog"], ["LIMIT.TAKE", "nobody"], ["NONSENSE"])
            _ = try await sidecar.get("/nowhere")
            let page = try await sidecar.get("/metrics")
            for line in [
                #"interlock_resp_commands_total{command="limit.take"} 3"#, #"interlock_resp_commands_total{command="unknown"} 1"#,
                #"interlock_resp_errors_total{code="UNKNOWN"} 1"#, #"interlock_resp_errors_total{code="ERR"} 1"#,
                #"interlock_http_refusals_total{code="unknown_path"} 1"#, "# TYPE interlock_redis_commands_total counter",
            ] {
                #expect(page.contains(line + "\n"), "\(line)")
            }
            #expect(!page.contains("No description."))
        }
    }

    @Test("Invalid keys are counted for each listener")
    func refusedLogins() async throws {
        let key = "web-of-32-letters-and-more-than-that"
        let keys = "auth: { keys: [ { name: web, key: \(key), role: use } ] }"
        try await SidecarProcess.withSidecar(configuration: keys) { sidecar in
            try await sidecar.send(["AUTH", "wrong"], ["AUTH", "default", "wrong"], key: key)
            _ = try await sidecar.get("/v1/services", key: "wrong")
            let page = try await sidecar.get("/metrics", key: key)
            for line in [#"interlock_login_failures_total{door="resp"} 2"#, #"interlock_login_failures_total{door="http"} 1"#] {
                #expect(page.contains(line + "\n"), "\(line)")
            }
        }
    }
}
