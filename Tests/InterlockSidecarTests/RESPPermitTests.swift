import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Permits through the RESP API", .timeLimit(.minutes(1)))
struct RESPPermitTests {
    private static let service = ServiceDefinition(
        name: "catalog", limits: [LimitDefinition(name: "1m", limit: 10, window: .seconds(60))], concurrency: 1)

    private static func waitUntilWaiting(_ expected: Int, at api: RESPTestAPI) async throws {
        try await eventually(within: .seconds(10), "\(expected) calls wait for a slot") {
            try await api.send("INFO").text?.contains("permits_waiting:\(expected)\r\n") == true
        }
    }

    @Test("With all slots in use, a permit is refused as busy, with a time to retry")
    func busy() async throws {
        try await RESPTestAPI.with(services: [Self.service]) { api in
            let permit = try await api.send("PERMIT.ACQUIRE", "catalog").array ?? []
            #expect(permit.first?.integer == 1)
            let refusal = try await api.send("PERMIT.ACQUIRE", "catalog").array ?? []
            #expect(refusal.first?.integer == 0)
            #expect(refusal.dropFirst().first?.text == "busy")
            #expect(refusal.last?.integer.map { $0 > 0 } == true)
        }
    }

    @Test("A client that disconnects stops waiting for a slot")
    func clientLeaves() async throws {
        try await RESPTestAPI.with(services: [Self.service]) { api in
            _ = try await api.send("PERMIT.ACQUIRE", "catalog")
            var address = RedisConfiguration(address: .host("127.0.0.1", port: api.port))
            address.commandTimeout = .seconds(60)
            let client = RedisClient(configuration: address)
            try await client.connect()
            let waiter = Task { try? await client.send(AnyCommand(["PERMIT.ACQUIRE", "catalog", "WAIT", "50000"])) }
            try await Self.waitUntilWaiting(1, at: api)
            await client.close()
            _ = await waiter.value
            try await Self.waitUntilWaiting(0, at: api)
        }
    }
}
