import Interlock
import InterlockProcesses
import RedisClient
import Testing

@testable import SidecarListeners

@Suite("APIs: forced breakers")
struct BreakerAPITests {
    /// Returns the fields of a breaker as the RESP API reports them.
    private static func fields(_ api: RESPTestAPI) async throws -> [String: RedisReply] {
        let flat = try await api.send("BREAKER.STATE", "catalog").array ?? []
        var fields: [String: RedisReply] = [:]
        for index in stride(from: 0, to: flat.count - 1, by: 2) { fields[flat[index].text ?? ""] = flat[index + 1] }
        return fields
    }

    @Test("RESP: a forced state takes an end and a reason, and the list shows both and the operator")
    func respForce() async throws {
        try await RESPTestAPI.with { api in
            let forced = try await api.send("BREAKER.FORCE", "catalog", "open", "REASON", "moving it", "FOR", "60000")
            #expect(forced.text == "OK")
            let fields = try await Self.fields(api)
            #expect(fields["forced"]?.text == "open")
            #expect(fields["reason"]?.text == "moving it")
            #expect(fields["by"]?.text == "\(api.coordinator.id) anonymous")
            let since = fields["since_ms"]?.integer ?? 0
            #expect(fields["forced_until_ms"]?.integer == since + 60_000)
            #expect(fields["own_cause"] == .null)
        }
    }

    @Test("RESP: an invalid end is refused", arguments: [["AUTO", "FOR", "5"], ["OPEN", "FOR", "0"], ["OPEN", "REASON"]])
    func respRefusals(arguments: [String]) async throws {
        try await RESPTestAPI.with { api in
            let reply = try await api.client.send(AnyCommand(["BREAKER.FORCE", "catalog"] + arguments))
            guard case .error(let error) = reply else {
                Issue.record("\(arguments) returned \(reply)")
                return
            }
            #expect(error.message.hasPrefix("INVALID "))
        }
    }

    @Test("HTTP: an override takes an end and a reason, and the list shows both")
    func httpOverride() async throws {
        try await HTTPTestAPI.with { api in
            let path = "/v1/services/catalog/override"
            let body = #"{"state": "closed", "for_ms": 60000, "reason": "a drill"}"#
            let forced = try await api.client.send("PUT", path, body)
            #expect(forced.status == 200)
            #expect(forced.text("reason") == "a drill")
            guard case .integer(let end) = forced.json["forced_until_ms"], case .integer(let since) = forced.json["since_ms"]
            else {
                Issue.record("\(forced.json)")
                return
            }
            #expect(end - since == 60_000)
            try await api.expect(400, "PUT", path, #"{"state": "auto", "for_ms": 5}"#)
            let long = String(repeating: "x", count: 257)
            try await api.expect(400, "PUT", path, #"{"state": "open", "reason": "\#(long)"}"#)
        }
    }
}
