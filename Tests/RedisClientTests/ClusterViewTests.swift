import InterlockCore
import NIOCore
import Testing

@testable import RedisClient

@Suite("The view of a cluster")
struct ClusterViewTests {
    private static func host(_ name: String) -> RedisConfiguration.Address { .host(name, port: 6379) }

    /// Values from the specification, and from `CLUSTER KEYSLOT` of redis-server 7.0.
    @Test(
        "A key's hash slot is that of its tag",
        arguments: [
            ("123456789", 12739), ("", 0), ("foo", 12182), ("{foo}bar", 12182), ("a{foo}{bar}", 12182), ("{}foo", 9500),
            ("foo{", 7673), ("interlock:lock:{foo}", 12182),
        ]
    )
    func keyHashSlotIsThatOfTag(key: String, slot: Int) {
        #expect(HashSlot(ofKey: key).number == slot)
    }

    private static func slot(_ number: Int64) -> HashSlot {
        guard let slot = HashSlot(number) else { preconditionFailure("there is no slot \(number)") }
        return slot
    }

    /// Returns the slot map that a server reports. Each claim is the number of a range of 100 hash slots, and its
    /// primary.
    private static func slotMap(_ claims: [(Int64, String)], epochs: [String: Int64]) -> ReportedSlotMap {
        ReportedSlotMap(
            claims: claims.map { number, primary in
                ReportedSlotMap.Claim(slots: slot(number * 100)...slot(number * 100 + 99), primary: host(primary), id: primary)
            }, epochs: epochs)
    }

    private static let now = NIODeadline.uptimeNanoseconds(1_000_000_000)

    @Test("When two servers claim a hash slot, the one with the higher epoch owns it, whatever others report later")
    func epochs() {
        var view = ClusterView()
        let before = Self.slotMap([(0, "a"), (1, "b")], epochs: ["a": 1, "b": 2])
        // Server b has taken over a's hash slots.
        let after = Self.slotMap([(0, "b"), (1, "b")], epochs: ["a": 1, "b": 3])
        let changes = [before, before, after, before, after].map { view.apply($0, now: Self.now).count }
        #expect(changes == [200, 0, 100, 0, 0])
        #expect(view.primaries == [Self.host("b")])
        #expect(view.slotCounts == [200])
        #expect(view.epoch == 3)
    }

    @Test("A server that knows an epoch, but not yet all its changes, does not move a hash slot back")
    func outdatedAnswer() {
        var view = ClusterView()
        _ = view.apply(Self.slotMap([(0, "a"), (1, "b")], epochs: ["a": 1, "b": 2]), now: Self.now)
        // Two ranges of hash slots move within one epoch of b; a third server knows only of the first move.
        _ = view.apply(Self.slotMap([(0, "b"), (1, "b"), (2, "b")], epochs: ["a": 1, "b": 5]), now: Self.now)
        let outdated = Self.slotMap([(0, "b"), (1, "b"), (2, "a")], epochs: ["a": 1, "b": 5])
        #expect(view.apply(outdated, now: Self.now).isEmpty)
        #expect(view.primaries == [Self.host("b")])
        #expect(view.coveredSlotCount == 300)
    }

    @Test("When no server can be queried, epochs start over")
    func recreatedCluster() {
        var view = ClusterView()
        _ = view.apply(Self.slotMap([(0, "a")], epochs: ["a": 7]), now: Self.now)
        view.forgetEpochs()
        let changes = view.apply(Self.slotMap([(0, "b")], epochs: ["b": 1]), now: Self.now)
        #expect(changes.count == 100)
        #expect(view.primaries == [Self.host("b")])
    }

    @Test("The answers of servers that report no epochs are accepted in the order of their arrival")
    func withoutEpochs() {
        var view = ClusterView()
        for primary in ["a", "b", "a"] { _ = view.apply(Self.slotMap([(0, primary)], epochs: [:]), now: Self.now) }
        #expect(view.primaries == [Self.host("a")])
    }

    @Test("An unclaimed hash slot has no owner, unless the server that reports this is behind")
    func unclaimedHashSlotHasNoOwner() {
        var view = ClusterView()
        _ = view.apply(Self.slotMap([(0, "a"), (1, "b")], epochs: ["a": 1, "b": 2]), now: Self.now)
        _ = view.apply(Self.slotMap([(0, "a")], epochs: ["a": 1]), now: Self.now)
        #expect(view.coveredSlotCount == 200)
        _ = view.apply(Self.slotMap([(0, "a")], epochs: ["a": 1, "b": 2]), now: Self.now)
        #expect(view.coveredSlotCount == 100)
    }

    @Test("A redirection outweighs answers of the same epoch until it expires")
    func redirectionOutweighsAnswersOfSameEpoch() {
        var view = ClusterView()
        let slotMap = Self.slotMap([(0, "a"), (1, "b")], epochs: ["a": 1, "b": 2])
        _ = view.apply(slotMap, now: Self.now)
        let isNew = [
            view.recordMove(Self.slot(7), to: Self.host("c"), now: Self.now),
            view.recordMove(Self.slot(7), to: Self.host("c"), now: Self.now),
        ]
        #expect(isNew == [true, false])
        view.dropUnusedPrimaries()
        #expect(view.primaries == [Self.host("a"), Self.host("b"), Self.host("c")])
        #expect(view.apply(slotMap, now: Self.now).isEmpty)
        #expect(view.owner(of: Self.slot(7)) == Self.host("c"))
        // If the redirection was wrong, the next answer after this time corrects the view.
        let later = Self.now + ClusterView.correctionTime
        #expect(view.apply(slotMap, now: later) == [Self.slot(7)])
        #expect(view.primaries == [Self.host("a"), Self.host("b")])
    }

    @Test("An answer that a redirection suppressed is accepted once the redirection expires, even if it is repeated")
    func correctionEnds() {
        var view = ClusterView()
        let before = Self.slotMap([(0, "a"), (1, "b")], epochs: ["a": 1, "b": 2])
        let after = Self.slotMap([(0, "b"), (1, "b")], epochs: ["a": 1, "b": 1])
        _ = view.apply(before, now: Self.now)
        _ = view.recordMove(Self.slot(7), to: Self.host("c"), now: Self.now)
        _ = view.apply(after, now: Self.now)
        #expect(view.owner(of: Self.slot(7)) == Self.host("c"))
        _ = view.apply(after, now: Self.now + ClusterView.correctionTime)
        #expect(view.owner(of: Self.slot(7)) == Self.host("b"))
    }

    @Test("A server that is assigned an unowned hash slot owns it, whatever its epoch")
    func reassigned() {
        var view = ClusterView()
        _ = view.apply(Self.slotMap([(0, "a"), (1, "b")], epochs: ["a": 1, "b": 9]), now: Self.now)
        _ = view.apply(Self.slotMap([(0, "a")], epochs: ["a": 1, "b": 9]), now: Self.now)
        _ = view.apply(Self.slotMap([(0, "a"), (1, "a")], epochs: ["a": 1, "b": 9]), now: Self.now)
        #expect(view.slotCounts == [200])
        #expect(view.epoch == 1)
    }

    @Test("The host names of removed servers are eventually dropped, and those of the others are kept")
    func namesAreBounded() {
        var view = ClusterView()
        for number in 0..<1200 {
            var slotMap = Self.slotMap([(0, "a")], epochs: ["a": Int64(number)])
            slotMap.hostNames = [Self.host("a"): "a.example", Self.host("gone-\(number)"): "gone.example"]
            _ = view.apply(slotMap, now: Self.now)
        }
        #expect(view.hostNames.count <= 1001)
        #expect(view.hostNames[Self.host("a")] == "a.example")
    }

    @Test(
        "In whichever order old and new answers arrive, the newest one is eventually accepted", arguments: 0..<50 as Range<UInt64>
    )
    func converges(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var owners = (0..<8).map { _ in "abc".randomElement(using: &random).map(String.init) ?? "a" }
        var epochs: [String: Int64] = ["a": 1, "b": 2, "c": 3]
        var history: [ReportedSlotMap] = []
        var view = ClusterView()
        for _ in 0..<40 {
            let index = Int.random(in: owners.indices, using: &random)
            let newOwner = ["a", "b", "c"][Int.random(in: 0..<3, using: &random)]
            // The server that takes over a hash slot gets the highest epoch.
            if epochs[newOwner] != epochs.values.max() { epochs[newOwner] = (epochs.values.max() ?? 0) + 1 }
            owners[index] = newOwner
            history.append(Self.slotMap(owners.enumerated().map { (Int64($0), $1) }, epochs: epochs))
            let received = history[Int.random(in: max(0, history.count - 5)..<history.count, using: &random)]
            _ = view.apply(received, now: Self.now)
        }
        _ = view.apply(history[history.count - 1], now: Self.now)
        for slotMap in history.suffix(10) { _ = view.apply(slotMap, now: Self.now) }
        for (index, owner) in owners.enumerated() { #expect(view.owner(of: Self.slot(Int64(index * 100))) == Self.host(owner)) }
    }

    @Test(
        "A redirection names its target",
        arguments: [
            ("MOVED 7 10.0.0.2:6380", Redirection.moved(HashSlot(7)!, .host("10.0.0.2", port: 6380))),
            ("MOVED 7 redis-2.internal:6380", .moved(HashSlot(7)!, .host("redis-2.internal", port: 6380))),
            ("MOVED 7 :6380", .moved(HashSlot(7)!, .host("sender", port: 6380))),
            ("MOVED 7 ::1:6380", .moved(HashSlot(7)!, .host("::1", port: 6380))),
            ("ASK 7 10.0.0.2:6380", .ask(.host("10.0.0.2", port: 6380))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", .tryAgain),
            ("CLUSTERDOWN Hash slot not served", .down),
            // If the target is missing or invalid, other servers are queried.
            ("MOVED 7 ?:6380", .down), ("MOVED 7", .down), ("MOVED 16384 h:1", .down), ("MOVED 7 h:0", .down),
            ("ASK x h:1", .down),
        ]
    )
    func redirectionNamesTarget(reply: String, redirection: Redirection) {
        #expect(Redirection(RedisError(reply: reply), sender: Self.host("sender")) == redirection)
    }

    @Test("Other errors are not redirections", arguments: ["ERR unknown command", "OOM no", "NOSCRIPT no"])
    func noRedirections(reply: String) {
        #expect(Redirection(RedisError(reply: reply), sender: Self.host("sender")) == nil)
    }

    @Test("The slot map is decoded with host names, without them, and with unknown addresses")
    func readsSlots() throws {
        func node(_ host: RedisReply, _ port: Int64) -> RedisReply { .array([host, .integer(port), .bulk(Array("id".utf8))]) }
        func text(_ text: String) -> RedisReply { .bulk(Array(text.utf8)) }
        let reply = RedisReply.array([
            .array([.integer(0), .integer(99), node(text("r1"), 6379), node(text("r2"), 6379)]),
            .array([.integer(100), .integer(199), node(text(""), 6380)]),
            .array([.integer(200), .integer(299), node(.null, 6381)]),
            .array([.integer(300), .integer(399), node(text("?"), 6382)]),
        ])
        let slotMap = try ClusterSlots(queried: Self.host("seed")).decode(reply)
        #expect(slotMap.claims.map(\.primary) == [Self.host("r1"), .host("seed", port: 6380), .host("seed", port: 6381)])
        #expect(slotMap.claims.map(\.id) == ["id", "id", "id"])
        #expect(slotMap.replicas == [Self.host("r2")])
        #expect(slotMap.coveredSlotCount == 300)
        #expect(throws: RedisError.self) { try ClusterSlots(queried: Self.host("seed")).decode(.array([.array([.integer(1)])])) }
        #expect(throws: RedisError.self) {
            try ClusterSlots(queried: Self.host("seed")).decode(.array([.array([.integer(5), .integer(4), node(text("r"), 1)])]))
        }
    }

    @Test("A host name that a node announces is the name that its certificate is checked against")
    func hostNames() throws {
        func text(_ text: String) -> RedisReply { .bulk(Array(text.utf8)) }
        func node(_ fields: [RedisReply]) -> RedisReply {
            .array([text("10.0.0.1"), .integer(6379), text("id"), .array(fields)])
        }
        func name(_ fields: [RedisReply]) throws -> String? {
            let reply = RedisReply.array([.array([.integer(0), .integer(99), node(fields)])])
            let slotMap = try ClusterSlots(queried: Self.host("seed")).decode(reply)
            var view = ClusterView()
            _ = view.apply(slotMap, now: Self.now)
            return RedisConfiguration(address: Self.host("seed")).server(at: .host("10.0.0.1", port: 6379), of: view).serverName
        }
        #expect(try name([text("hostname"), text("redis-1.example")]) == "redis-1.example")
        #expect(try name([text("hostname"), text("")]) == nil)
        #expect(try name([text("ip"), text("10.0.0.1")]) == nil)
        #expect(try name([]) == nil)
    }

    @Test("CLUSTER NODES is decoded for the epochs only")
    func readsEpochs() throws {
        let lines = """
            07c3 127.0.0.1:30004@31004,name slave e7d1 0 1426238317239 4 connected
            e7d1 127.0.0.1:30001@31001 myself,master - 0 0 12 connected 0-5460 [93-<-07c3]
            """
        let epochs = try ClusterEpochs().decode(.bulk(Array((lines + "\n\n? ?").utf8)))
        #expect(epochs == ["07c3": 4, "e7d1": 12])
    }
}
