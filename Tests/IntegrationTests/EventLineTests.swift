import Interlock
import InterlockCore
import Testing

@testable import InterlockCLI

@Suite("Printed events and filters")
struct EventLineTests {
    private static func line(_ payload: EventPayload) -> String {
        InterlockEvent(origin: "a1", database: 0, atMilliseconds: 1_795_237_271_176, payload: payload).line
    }

    @Test(
        "A limit event is printed with its service and subject",
        arguments: [
            (LimitEvent.Kind.near, "nearly reached"), (.reached, "reached"), (.shadow, "would have refused a call"),
        ])
    func limitEventIsPrintedWithServiceAndSubject(kind: LimitEvent.Kind, words: String) {
        var event = LimitEvent(kind: kind, service: "catalog", limitName: "1s", subject: nil, used: 8, limit: 10)
        let start = "2026-11-21T05:01:11.176Z  limit 1s of catalog"
        #expect(Self.line(.limit(event)) == "\(start): \(words), 8 of 10 used (seen by a1)")
        event.subject = "tenant-7"
        #expect(Self.line(.limit(event)) == "\(start) for tenant-7: \(words), 8 of 10 used (seen by a1)")
    }

    @Test("A breaker event is printed with its reason, end and operator")
    func breakerEventIsPrintedWithItsReason() {
        let open = BreakerSnapshot(state: .open) {
            ($0.cause, $0.changedBy, $0.reason, $0.untilMilliseconds) = ("probe", "b2", "status 503", 1_795_237_273_782)
        }
        #expect(
            Self.line(.breaker(BreakerEvent(service: "catalog", breaker: open)))
                == "2026-11-21T05:01:11.176Z  breaker catalog: open (probe, status 503, until 2026-11-21T05:01:13.782Z, by b2)")
        let forced = BreakerSnapshot {
            ($0.cause, $0.changedBy, $0.forced, $0.forcedUntilMilliseconds) = ("forced", "ops", .disabled, 1_795_237_273_782)
        }
        #expect(
            Self.line(.breaker(BreakerEvent(service: "catalog", breaker: forced)))
                == "2026-11-21T05:01:11.176Z  breaker catalog: closed (forced disabled, until 2026-11-21T05:01:13.782Z, by ops)")
    }

    @Test("Lock and sidecar events are printed")
    func lockAndSidecarEventsArePrinted() {
        #expect(
            Self.line(.lock(LockEvent(kind: .broken, lock: "orders", brokenBy: "ops"))).hasSuffix("  lock orders: broken by ops"))
        #expect(Self.line(.lock(LockEvent(kind: .broken, lock: "orders", brokenBy: ""))).hasSuffix("  lock orders: broken"))
        #expect(Self.line(.fleet(FleetEvent(kind: .joined, sidecar: "a1"))).hasSuffix("  sidecar a1: joined the fleet"))
        #expect(Self.line(.fleet(FleetEvent(kind: .left, sidecar: "a1"))).hasSuffix("  sidecar a1: left the fleet"))
    }

    @Test("A name with control characters cannot move the cursor")
    func nameWithControlCharactersCannotMoveCursor() {
        #expect(
            Self.line(.lock(LockEvent(kind: .broken, lock: "a\u{1B}[2Jb", brokenBy: ""))).hasSuffix("lock a\u{FFFD}[2Jb: broken"))
    }

    @Test("A filter accepts a type, or a prefix up to a dot")
    func filterAcceptsTypeOrPrefix() throws {
        let limits = try #require(EventTypes(argument: "limit"))
        #expect(limits.includes("limit.near"))
        #expect(limits.includes("limit.shadow"))
        #expect(!limits.includes("limited.near"))
        let near = try #require(EventTypes(argument: "limit.near"))
        #expect(near.includes("limit.near"))
        #expect(!near.includes("limit.reached"))
    }

    @Test("A filter that matches nothing is rejected", arguments: ["", "lim", "limit.", "weather", "LIMIT"])
    func noSuchType(name: String) {
        #expect(EventTypes(argument: name) == nil)
    }
}
