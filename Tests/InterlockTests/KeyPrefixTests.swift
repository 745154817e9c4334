import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Locks under a custom key prefix")
struct KeyPrefixTests {
    @Test(
        "A lock whose key would collide with the fleet's own keys is rejected",
        arguments: ["interlock:fleet", "interlock:anything"])
    func fleetKeys(name: String) async throws {
        let name = try ResourceName(name)
        try await Fleet.run(locks: LockSettings(keyPrefix: "")) { fleet in
            let error = await #expect(throws: InterlockError.self) {
                try await fleet.sidecars[0].acquireLock(LockRequest(name: name, ttlMilliseconds: 30_000))
            }
            #expect(error?.code == .invalid)
            let both = JointLockRequest(
                names: [try ResourceName("a"), name], template: LockRequest(name: name, ttlMilliseconds: 30_000))
            await #expect(throws: InterlockError.self) { try await fleet.sidecars[0].acquireLocks(both) }
            #expect(try await fleet.sidecars[0].acquireLock(try LockRequest("interlocked")) != nil)
        }
    }
}
