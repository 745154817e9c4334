import InterlockCore
import Testing

@testable import Interlock

/// Tests with a manual clock and without Redis.
@Suite("The list of a sidecar's leases")
final class LeaseTableTests {
    private var table = LeaseTable()

    private static func instant(_ milliseconds: Int64) -> Instant {
        Instant(nanoseconds: 0).advanced(byMilliseconds: milliseconds)
    }

    /// Grants a lease of `ttl` milliseconds at the time `milliseconds`.
    private func grant(
        _ name: String, _ token: String, fence: Int64 = 1, ttl: Int64 = 60_000, at milliseconds: Int64 = 0
    ) throws {
        let now = Self.instant(milliseconds)
        let lease = Lease(
            name: name, token: token, fence: fence, validMilliseconds: ttl, ttlMilliseconds: ttl,
            deadline: now.advanced(byMilliseconds: ttl))
        table.recordGrant(lease, to: try LockRequest(name, ttl: ttl), startedAt: now, now: now, host: "here")
    }

    private func reviewed(at milliseconds: Int64) -> [String] {
        table.due(now: Self.instant(milliseconds)) { _ in false }.map { "\($0.name) \($0.token) \($0.fence)" }
    }

    private func count(at milliseconds: Int64) -> Int { table.count(now: Self.instant(milliseconds)) }

    private func suspect(_ name: String) -> Bool { table.suspect(name) }

    @Test("Each lease is reviewed under its own name and token in the order of grant, and again later")
    func reviewsInOrder() throws {
        try grant("orders", "web-1/a", fence: 7)
        try grant("größe", "ß", fence: 8, at: 100)
        try grant("brief", "web-2/b", fence: 9, at: 200)
        #expect(reviewed(at: 999).isEmpty)
        #expect(reviewed(at: 1100) == ["orders web-1/a 7", "größe ß 8"])
        #expect(reviewed(at: 1200) == ["brief web-2/b 9"])
        #expect(reviewed(at: 6099).isEmpty)
        #expect(reviewed(at: 6200) == ["orders web-1/a 7", "größe ß 8", "brief web-2/b 9"])
    }

    @Test("A lease that has ended or was granted anew is not reviewed under its old grant")
    func reviewsOfEndedLeases() throws {
        try grant("orders", "a", fence: 1)
        try grant("bills", "b", fence: 2)
        try grant("mails", "c", fence: 3)
        table.recordEnd("orders", token: "a", .released, now: Self.instant(500))
        try grant("bills", "b", fence: 4, at: 600)
        #expect(reviewed(at: 1000) == ["mails c 3"])
        #expect(reviewed(at: 1600) == ["bills b 4"])
    }

    @Test("The leases of a lock that may have been broken are reviewed immediately, in the order of grant")
    func suspects() throws {
        try grant("orders", "a", fence: 1)
        try grant("bills", "b", fence: 2)
        try grant("orders", "c", fence: 3)
        try grant("orders", "gone", fence: 4)
        table.recordEnd("orders", token: "gone", .released, now: Self.instant(10))
        #expect(suspect("orders"))
        #expect(reviewed(at: 20) == ["orders a 1", "orders c 3"])
        #expect(reviewed(at: 30).isEmpty)
        #expect(reviewed(at: 1000) == ["orders a 1", "bills b 2", "orders c 3"])
    }

    @Test("A lapsed lease is dropped at later grants, and a renewed one stays until its new end")
    func laterGrantsDropLapsedLease() throws {
        try grant("brief", "a", fence: 1, ttl: 1000)
        try grant("extended", "b", fence: 2, ttl: 1000)
        table.recordRenewal("extended", token: "b", deadline: Self.instant(9000))
        try grant("later", "c", fence: 3, at: 4000)
        #expect(suspect("brief"))
        #expect(suspect("extended"))
        // A suspected lease that is also due is reviewed twice.
        #expect(Set(reviewed(at: 4000)) == ["extended b 2"])
        #expect(count(at: 4000) == 2)
        #expect(count(at: 11_000) == 1)
    }

    @Test("An owner's lease that lapsed here and is found again is reviewed once")
    func listedAgain() throws {
        try grant("orders", "owner", ttl: 100)
        try grant("other", "token", fence: 2, at: 5000)
        try grant("orders", "owner", at: 5000)
        #expect(suspect("orders"))
        #expect(reviewed(at: 5000) == ["orders owner 1"])
    }

    @Test("The list takes leases up to its capacity, and leases that end free capacity")
    func listTakesLeasesUpToCapacity() throws {
        for number in 0..<20_100 { try grant("lock-\(number)", "token", fence: Int64(number)) }
        #expect(count(at: 0) == 20_000)
        for number in 0..<20_000 { table.recordEnd("lock-\(number)", token: "token", .released, now: Self.instant(0)) }
        #expect(count(at: 0) == 0)
    }

    @Test("Leases that end do not keep later ones off the list or out of reviews while one is held")
    func endedReviews() throws {
        try grant("held", "token", fence: 1)
        for number in 2..<50_000 {
            try grant("cycle", "token-\(number)", fence: Int64(number))
            table.recordEnd("cycle", token: "token-\(number)", .released, now: Self.instant(0))
        }
        try grant("last", "token", fence: 60_000)
        #expect(count(at: 0) == 2)
        #expect(reviewed(at: 1000) == ["held token 1", "last token 60000"])
    }
}
