import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@testable import SidecarListeners

/// Exceeds each limit of docs/reference/bounds.md by one, and checks that other clients are still served.
@Suite("Limits of one client", .timeLimit(.minutes(1)))
struct BoundsTests {
    @Test("A connection that reaches its limit of renewed leases does not affect another connection")
    func leasesOfAConnection() async throws {
        try await RESPTestAPI.with { api in
            let maximum = RESPConnection.maximumFollowed
            let commands = (0...maximum).map { "LOCK.ACQUIRE lease-\($0) 60000 LINKED\r\n" }.joined() + "PING done\r\n"
            async let replies = api.exchange(commands, until: "done")
            let received = try await replies
            #expect(received.split(separator: "*3\r\n", omittingEmptySubsequences: false).count - 1 == maximum)
            #expect(received.contains("-UNAVAILABLE this connection already watches \(maximum) leases"))
            let other = try await api.send("LOCK.ACQUIRE", "another", "60000", "LINKED")
            #expect(other.array?.count == 3)
        }
    }

    @Test("An API key that reaches its limit of remembered GET /lock leases does not affect another key")
    func rememberedLeases() throws {
        let leases = RememberedLeases()
        for number in 0..<RememberedLeases.capacity {
            #expect(leases.reserve(for: "web"))
            // Half of the reservations stay pending.
            guard number.isMultiple(of: 2) else { continue }
            leases.remember("lock-\(number)", token: "t", fence: 1, acquiredBy: "web", ttlMilliseconds: 60_000)
            leases.cancel(for: "web")
        }
        #expect(!leases.reserve(for: "web"))
        #expect(leases.reserve(for: "ops"))
        leases.forget("lock-6", acquiredBy: "web", token: "t")
        #expect(leases.reserve(for: "web"))
        #expect(!leases.reserve(for: "web"))
    }

    @Test("A 429 pauses a limited number of subjects, and those stay paused")
    func pausedSubjects() {
        let now = Instant(nanoseconds: 1_000_000_000)
        let end = now.advanced(byMilliseconds: 60_000)
        var pauses = SubjectPauses()
        for number in 0...SubjectPauses.capacity { pauses.pause("tenant-\(number)", until: end, now: now) }
        let paused = (0...SubjectPauses.capacity).map { pauses.end(of: "tenant-\($0)", now: now) }
        #expect(paused.dropLast().allSatisfy { $0 == end })
        #expect(paused.last == .some(nil))
    }
}
