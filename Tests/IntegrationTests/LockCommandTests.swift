import FoundationEssentials
import InterlockProcesses
import InterlockTesting
import Subprocess
import Testing

/// `interlock lock` as users and scripts run it: the built program with its own sidecar.
@Suite("Command line: locks", .serialized, .timeLimit(.minutes(2)))
struct LockCommandTests {
    private struct Grant: Decodable {
        var token: String
        var fence: Int64
        var validMs: Int64
    }

    private struct Lock: Decodable {
        var name: String
        var label: String?
        var ttlMs: Int64
        var waiters: Int
    }

    @Test("A lock is acquired, shown, renewed and released")
    func lockIsAcquiredRenewedAndReleased() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let acquired = try await sidecar.interlock("lock", "acquire", "orders", "--ttl", "1m", "--label", "tests", "--json")
            #expect(acquired.status == .exited(0))
            let grant = try acquired.decoded(Grant.self)
            #expect(grant.token.hasPrefix("tests/"))
            #expect((1...60_000).contains(grant.validMs))

            let lockInformation = try await sidecar.interlock("lock", "show", "orders", "--json")
            let lock = try lockInformation.decoded(Lock.self)
            #expect(lock.label == "tests")
            #expect(!lockInformation.output.contains(grant.token))

            let renewed = try await sidecar.interlock("lock", "renew", "orders", grant.token, "--ttl", "2m")
            #expect(renewed.status == .exited(0))
            #expect(renewed.output.hasPrefix("valid"))

            let release = try await sidecar.interlock("lock", "release", "orders", grant.token)
            #expect(release.status == .exited(0))
            let information = try await sidecar.interlock("lock", "show", "orders")
            #expect(information.status == .exited(1))
        }
    }

    @Test("A held lock is refused with 1, and the error is on standard error only")
    func heldLockExitsWith1() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            _ = try await sidecar.interlock("lock", "acquire", "orders")
            let refusal = try await sidecar.interlock("lock", "acquire", "orders")
            #expect(refusal.status == .exited(1))
            #expect(refusal.output.isEmpty)
            #expect(refusal.errors.hasPrefix("interlock: the lock orders is held by another"))
        }
    }

    @Test("`lock acquire --json` always prints one object, and the error is also on standard error")
    func acquireAsJSON() async throws {
        struct Outcome: Decodable {
            var acquired: Bool
            var name: String
            var token: String?
            var code: String?
            var detail: String?
        }
        try await SidecarProcess.withSidecar { sidecar in
            let grant = try await sidecar.interlock("lock", "acquire", "orders", "--json").decoded(Outcome.self)
            #expect(grant.acquired)
            #expect(grant.token != nil)

            let heldOutcome = try await sidecar.interlock("lock", "acquire", "orders", "--json")
            #expect(heldOutcome.status == .exited(1))
            #expect(heldOutcome.output.split(separator: "\n").count == 1)
            let refusal = try heldOutcome.decoded(Outcome.self)
            #expect(!refusal.acquired)
            #expect(refusal.name == "orders")
            #expect(refusal.code == "held")
            #expect(heldOutcome.errors.contains(refusal.detail ?? "nothing"))

            let invalid = try await sidecar.interlock("lock", "acquire", "a b", "--json")
            #expect(invalid.status == .exited(65))
            #expect(try invalid.decoded(Outcome.self).code == "invalid")
            let absent = try await sidecar.interlock("lock", "acquire", "orders", "--json", "--sidecar", "127.0.0.1:1")
            #expect(absent.status == .exited(69))
            #expect(try absent.decoded(Outcome.self).code == "unavailable")
        }
    }

    @Test("`lock acquire --print` prints only the requested field, and nothing when the lock is held")
    func printedField() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let token = try await sidecar.interlock("lock", "acquire", "orders", "--print", "token")
            #expect(token.status == .exited(0))
            let release = try await sidecar.interlock("lock", "release", "orders", String(token.output.dropLast()))
            #expect(release.status == .exited(0))
            let fence = try await sidecar.interlock("lock", "acquire", "orders", "--print", "fence")
            #expect(Int64(fence.output.dropLast()) != nil)
            let refusal = try await sidecar.interlock("lock", "acquire", "orders", "--print", "token")
            #expect(refusal.status == .exited(1))
            #expect(refusal.output.isEmpty)
            let both = try await sidecar.interlock("lock", "acquire", "orders", "--print", "token", "--json")
            #expect(both.status == .exited(64))
        }
    }

    @Test("A waiting acquire gets the lock when its holder releases it")
    func waitingAcquireGetsReleasedLock() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let grant = try await sidecar.interlock("lock", "acquire", "orders", "--json").decoded(Grant.self)
            let waiter = try await InterlockProcess.start(
                ["lock", "acquire", "orders", "--wait", "25s", "--json"], environment: sidecar.environment())
            try await eventually("the second caller waits") {
                try await sidecar.interlock("lock", "show", "orders", "--json").decoded(Lock.self).waiters == 1
            }
            _ = try await sidecar.interlock("lock", "release", "orders", grant.token)
            let status = try await waiter.end(within: .seconds(20))
            #expect(status == .exited(0))
            let outcome = CommandOutcome(status: status, output: waiter.output, errors: waiter.errors)
            let next = try outcome.decoded(Grant.self)
            #expect(next.fence > grant.fence)
        }
    }

    @Test("A wait shortened by the sidecar is reported, for locks and for limits")
    func shortenedWait() async throws {
        let configuration = "locks: { max_wait: 200ms }\nservices: { catalog: { limits: [ { limit: 3, per: 1h } ] } }"
        try await SidecarProcess.withSidecar(configuration: configuration) { sidecar in
            _ = try await sidecar.interlock("lock", "acquire", "orders")
            let shortened = try await sidecar.interlock("lock", "acquire", "orders", "--wait", "20s")
            #expect(shortened.status == .exited(1))
            #expect(
                shortened.errors.contains(
                    "still held after 200ms (you requested 20s, but the sidecar's locks.max_wait is 200ms): see `interlock"))
            let full = try await sidecar.interlock("lock", "acquire", "orders", "--wait", "100ms")
            #expect(full.errors.contains("still held after 100ms: use a longer --wait"))

            for _ in 0..<3 { _ = try await sidecar.interlock("limit", "take", "catalog") }
            let limited = try await sidecar.interlock("limit", "take", "catalog", "--wait", "20s")
            #expect(limited.status == .exited(1))
            #expect(
                limited.errors.contains("longest wait is 200ms (you requested 20s, but the sidecar's locks.max_wait is 200ms)"))
        }
    }

    @Test("An invalid label is reported as a label")
    func invalidLabelIsReportedAsLabel() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let acquired = try await sidecar.interlock("lock", "acquire", "orders", "--label", "web 1")
            #expect(acquired.status == .exited(65))
            #expect(acquired.errors.contains("the label contains a space"))
            let run = try await sidecar.interlock("run", "--lock", "orders", "--label", "web 1", "--", "true")
            #expect(run.status == .exited(64))
            #expect(run.errors.contains("--label: the label contains a space"))
        }
    }

    @Test("The same owner gets the same lease again")
    func sameOwnerGetsSameLeaseAgain() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let first = try await sidecar.interlock("lock", "acquire", "orders", "--owner", "mine", "--json").decoded(Grant.self)
            let repeatedGrant = try await sidecar.interlock("lock", "acquire", "orders", "--owner", "mine", "--json").decoded(
                Grant.self)
            #expect(repeatedGrant.token == first.token)
            #expect(repeatedGrant.fence == first.fence)
        }
    }

    @Test("A lost lease is refused with 1", arguments: ["renew", "release"])
    func lostLeaseExitsWith1(subcommand: String) async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let refusal = try await sidecar.interlock("lock", subcommand, "orders", "nobody/0123456789abcdef0123456789abcdef")
            #expect(refusal.status == .exited(1))
            #expect(refusal.output.isEmpty)
        }
    }

    @Test("A broken lock can be acquired, and breaking it again fails")
    func brokenLockCanBeAcquired() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            _ = try await sidecar.interlock("lock", "acquire", "orders")
            let broken = try await sidecar.interlock("lock", "break", "orders")
            #expect(broken.status == .exited(0))
            let secondBreak = try await sidecar.interlock("lock", "break", "orders")
            #expect(secondBreak.status == .exited(1))
            let acquired = try await sidecar.interlock("lock", "acquire", "orders")
            #expect(acquired.status == .exited(0))
        }
    }

    @Test("The list contains every matching lock, and says when it is incomplete")
    func listContainsEveryMatchingLock() async throws {
        struct Listing: Decodable {
            var locks: [Lock]
            var complete: Bool
        }
        try await SidecarProcess.withSidecar { sidecar in
            for name in ["orders:1", "orders:2", "other"] { _ = try await sidecar.interlock("lock", "acquire", name) }
            let matching = try await sidecar.interlock("lock", "list", "--match", "orders*", "--json").decoded(Listing.self)
            #expect(matching.locks.map(\.name) == ["orders:1", "orders:2"])
            #expect(matching.complete)

            let short = try await sidecar.interlock("lock", "list", "--limit", "2", "--json")
            let listing = try short.decoded(Listing.self)
            #expect(listing.locks.count == 2)
            #expect(!listing.complete)
            #expect(short.errors.contains("--limit"))

            let table = try await sidecar.interlock("lock", "list")
            #expect(table.output.split(separator: "\n").count == 4)
            #expect(table.output.hasPrefix("LOCK "))
        }
    }
}
