import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Locks under keys of one's own choosing")
struct KeyPrefixTests {
    @Test("a lock whose key would be among the fleet's own is refused", arguments: ["interlock:fleet", "interlock:anything"])
    func own(name: String) async throws {
        let name = try ResourceName(name)
        try await Fleet.run(locks: LockSettings(keyPrefix: "")) { fleet in
            let error = await #expect(throws: InterlockError.self) {
                try await fleet.sidecars[0].acquireLock(LockRequest(name: name, ttl: 30_000))
            }
            #expect(error?.code == .invalid)
            let both = JointLockRequest(
                names: [try ResourceName("a"), name], template: LockRequest(name: name, ttl: 30_000))
            await #expect(throws: InterlockError.self) { try await fleet.sidecars[0].acquireLocks(both) }
            #expect(try await fleet.sidecars[0].acquireLock(try LockRequest("interlocked")) != nil)
        }
    }
}
