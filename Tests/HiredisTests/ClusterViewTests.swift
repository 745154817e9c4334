import Testing

@testable import Hiredis

@Suite("What is known of a cluster")
struct ClusterViewTests {
    private static func host(_ name: String) -> RedisConfiguration.Address { .host(name, port: 6379) }

    /// From the specification, and from `CLUSTER KEYSLOT` of redis-server 7.0.
    @Test(
        "a key's slot is that of its tag",
        arguments: [
            ("123456789", 12739), ("", 0), ("foo", 12182), ("{foo}bar", 12182), ("a{foo}{bar}", 12182), ("{}foo", 9500),
            ("foo{", 7673), ("interlock:lock:{foo}", 12182),
        ]
    )
    func slots(key: String, slot: Int) {
        #expect(HashSlot(ofKey: key).number == slot)
    }

    @Test("a server of an older epoch is not believed, unless nobody else is there")
    func epochs() throws {
        let slot = try #require(HashSlot(7))
        var old = SlotMap()
        old.assign(slot, to: Self.host("a"))
        var new = SlotMap()
        new.assign(slot, to: Self.host("b"))
        var view = ClusterView()
        let changes = [
            view.heard(old, epoch: 3), view.heard(old, epoch: 3), view.heard(new, epoch: 4), view.heard(old, epoch: 3),
        ]
        #expect(changes == [.changed, .unchanged, .changed, .outdated])
        #expect(view.map.owner(of: slot) == Self.host("b"))
        view.forgetEpoch()
        let again = view.heard(old, epoch: 1)
        #expect(again == .changed)
        #expect(view.map.owner(of: slot) == Self.host("a"))
    }

    @Test("what was left within an epoch is not believed again")
    func leftWithinAnEpoch() throws {
        let slots = try #require(HashSlot(0))...(try #require(HashSlot(16_383)))
        let old = SlotMap([(slots, Self.host("a"))], replicas: [Self.host("b")])
        let new = SlotMap([(slots, Self.host("b"))], replicas: [])
        let oldWithoutReplicas = SlotMap([(slots, Self.host("a"))], replicas: [])
        var view = ClusterView()
        // Whoever votes knows of the epoch before it knows what came of it.
        let told: [(SlotMap, Int64)] = [(old, 3), (new, 4), (old, 4), (oldWithoutReplicas, 4), (new, 4), (new, 5), (old, 5)]
        let changes = told.map { view.heard($0.0, epoch: $0.1) }
        #expect(changes == [.changed, .changed, .outdated, .outdated, .unchanged, .unchanged, .changed])
    }

    @Test("a slot that has moved is known at once, and told once")
    func moved() throws {
        let slot = try #require(HashSlot(16_383))
        var view = ClusterView()
        let told = [view.moved(slot, to: Self.host("c")), view.moved(slot, to: Self.host("c"))]
        #expect(told == [true, false])
        #expect(view.map.owner(of: slot) == Self.host("c"))
        #expect(view.map.shares == [1])
        #expect(view.map.covered == 1)
    }

    @Test(
        "a redirection says where to go",
        arguments: [
            ("MOVED 7 10.0.0.2:6380", Redirection.moved(HashSlot(7)!, .host("10.0.0.2", port: 6380))),
            ("MOVED 7 redis-2.internal:6380", .moved(HashSlot(7)!, .host("redis-2.internal", port: 6380))),
            ("MOVED 7 :6380", .moved(HashSlot(7)!, .host("asked", port: 6380))),
            ("MOVED 7 ::1:6380", .moved(HashSlot(7)!, .host("::1", port: 6380))),
            ("ASK 7 10.0.0.2:6380", .ask(.host("10.0.0.2", port: 6380))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", .tryAgain),
            ("CLUSTERDOWN Hash slot not served", .down),
        ]
    )
    func redirections(reply: String, redirection: Redirection) {
        #expect(Redirection(RedisError(reply: reply), asked: Self.host("asked")) == redirection)
    }

    @Test(
        "what is none is none",
        arguments: ["ERR unknown command", "MOVED 7", "MOVED 16384 h:1", "MOVED 7 h:0", "MOVED 7 ?:6380", "ASK x h:1", "OOM no"])
    func noRedirections(reply: String) {
        #expect(Redirection(RedisError(reply: reply), asked: Self.host("asked")) == nil)
    }

    @Test("the map is read as servers give it: with host names, without, and with what they do not know")
    func readsSlots() throws {
        func node(_ host: RedisReply, _ port: Int64) -> RedisReply { .array([host, .integer(port), .bulk(Array("id".utf8))]) }
        func text(_ text: String) -> RedisReply { .bulk(Array(text.utf8)) }
        let reply = RedisReply.array([
            .array([.integer(0), .integer(99), node(text("r1"), 6379), node(text("r2"), 6379)]),
            .array([.integer(100), .integer(199), node(text(""), 6380)]),
            .array([.integer(200), .integer(299), node(.null, 6381)]),
            .array([.integer(300), .integer(399), node(text("?"), 6382)]),
        ])
        let map = try ClusterSlots(asked: Self.host("seed")).decode(reply)
        #expect(map.primaries == [Self.host("r1"), .host("seed", port: 6380), .host("seed", port: 6381)])
        #expect(map.replicas == [Self.host("r2")])
        #expect(map.shares == [100, 100, 100])
        #expect(map.covered == 300)
        #expect(throws: RedisError.self) { try ClusterSlots(asked: Self.host("seed")).decode(.array([.array([.integer(1)])])) }
        #expect(throws: RedisError.self) {
            try ClusterSlots(asked: Self.host("seed")).decode(.array([.array([.integer(5), .integer(4), node(text("r"), 1)])]))
        }
    }
}
