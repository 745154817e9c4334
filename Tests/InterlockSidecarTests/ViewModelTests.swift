import InterlockCore
import Testing

@testable import SidecarConsole
@testable import SidecarListeners

@Suite("View models")
struct ViewModelTests {
    private static func completed(_ model: ViewModel, _ row: [String: JSONValue]) -> [String: JSONValue] {
        guard case .object(let words) = model.completed(.object(row))["words"] else { return [:] }
        return words
    }

    @Test("A model builds cells from words, and each row has a key")
    func modelBuildsCellsFromWords() {
        for (name, model) in ViewModel.all {
            let words = model.columns.filter { $0.path.hasPrefix("words.") }
            #expect(words.isEmpty == (model.words == nil), "\(name)")
            #expect(model.rows.isEmpty || !model.key.isEmpty, "\(name)")
            #expect(Set(model.columns.map { $0.title + $0.path }).count == model.columns.count, "\(name)")
        }
    }

    @Test(
        "The holder column shows one label, a label and a count, or that nobody holds the lock",
        arguments: [
            (0, 0, "exclusive", "nobody"), (0, 2, "exclusive", "being handed over"), (1, 0, "exclusive", "a"),
            (1, 0, "shared", "b"), (3, 0, "shared", "b and 2 more"),
        ])
    func holderColumnSummarizesHolders(holders: Int64, waiters: Int64, mode: String, expected: String) {
        let words = Self.completed(
            .locks,
            [
                "holders": .integer(holders), "waiters": .integer(waiters), "mode": .string(mode), "label": .string("a"),
                "leases": .array([.object(["label": .string("b")])]),
            ])
        #expect(words["holder"] == .string(expected))
    }

    @Test("A semaphore shows how many of its slots are in use, and marks its grants")
    func semaphoreShowsUsedSlots() {
        let lock: [String: JSONValue] = ["holders": .integer(3), "permits": .integer(5), "mode": .string("semaphore")]
        #expect(Self.completed(.locks, lock)["mode"] == .string("3 of 5 slots"))
        #expect(Self.completed(.lock, lock)["held"] == .string("3 of 5 slots"))
        #expect(Self.completed(.lock, ["holders": .integer(2), "mode": .string("shared")])["held"] == .string("shared, by 2"))
        #expect(Self.completed(.grants, lock)["mode"] == .string("one of 5 slots"))
    }

    @Test(
        "A forced breaker shows the end of its forced state",
        arguments: [("", 5, 9, "5"), ("open", 5, 9, "9"), ("open", 5, 0, ""), ("", 0, 9, "")])
    func forcedBreakerShowsEndOfForcedState(forced: String, end: Int64, forcedEnd: Int64, expected: String) {
        let words = Self.completed(
            .breakers,
            [
                "forced": forced.isEmpty ? .null : .string(forced), "cause": .string("failures"), "until_ms": .integer(end),
                "forced_until_ms": .integer(forcedEnd),
            ])
        #expect(words["until"] == (expected.isEmpty ? nil : .string(expected)))
        #expect(words["why"] == .string(forced.isEmpty ? "failures" : "forced open"))
    }

    @Test("Rules have their domain's name, and are shadow rules in a shadow domain")
    func rulesHaveTheirDomainName() {
        let rule = JSONValue.object([
            "rule": .string("path"), "shadow": .bool(false), "limit": .integer(0), "name": .string("none"),
        ])
        let domain = JSONValue.object(["domain": .string("edge"), "shadow": .bool(true), "rules": .array([rule])])
        let part = ViewModel.completed("domains", .object(["domains": .array([domain])]))
        let rows = ViewModel.domains.rows(in: .object(["domains": part]))
        #expect(
            rows?.first?["words"]
                == .object([
                    "domain": .string("edge"), "rule": .string("path (none)"), "limit": .string("blocks everything"),
                    "kind": .string("shadow"),
                ]))
    }

    @Test("Text from a sidecar stays unchanged")
    func sentWords() {
        let sent = JSONValue.object(["events": .array([.object(["words": .object(["what": .string("as it was sent")])])])])
        #expect(ViewModel.completed("events", sent) == sent)
    }

    @Test("Rows that were never read are unknown rather than missing")
    func unknownRows() {
        func rows(_ readAt: JSONValue) -> [JSONValue]? {
            ViewModel.holders.rows(in: .object(["lock": .object(["at_ms": readAt, "leases": .array([])])]))
        }
        #expect(rows(.null) == nil)
        #expect(rows(.integer(5)) == [])
        #expect(ViewModel.holders.rows(in: .object([:])) == nil)
    }

    @Test("Limits from a sidecar come with their refusals, before those per subject")
    func sidecarLimitsShowRefusals() {
        func limit(_ name: String, _ members: [String: JSONValue]) -> JSONValue {
            .object(members.merging(["name": .string(name), "limit": .integer(20)]) { $1 })
        }
        let readRows = [
            limit("1s", ["remaining": .integer(17), "limited": .bool(false), "retry_after_ms": .integer(-1)]),
            limit("1m", ["remaining": .integer(0), "limited": .bool(true), "retry_after_ms": .integer(900)]),
        ]
        let configuredRows = [
            limit("each", ["per_subject": .bool(true), "refused": .integer(4)]), limit("1s", ["refused": .integer(2)]),
        ]
        let rows = Optional(ViewModel.limitRows(read: .array(readRows), configured: .array(configuredRows))).list
        #expect(rows.map { $0["name"] } == [.string("1s"), .string("1m"), .string("each")])
        #expect(rows.map { $0["used"] } == [.integer(3), .integer(20), nil])
        #expect(rows.map { $0["refused"] } == [.integer(2), nil, .integer(4)])
        #expect(rows.map { $0["retry_after_ms"] } == [nil, .integer(900), nil])
    }
}
