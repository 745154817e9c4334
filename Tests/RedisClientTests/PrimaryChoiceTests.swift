import Testing

@testable import RedisClient

@Suite("Which primary is followed")
struct PrimaryChoiceTests {
    private static func primary(_ port: Int, _ epoch: Int64) -> PrimaryChoice.Primary {
        PrimaryChoice.Primary(.host("10.0.0.1", port: port), epoch: epoch)
    }

    /// Returns the choice among three Sentinels after two have named the primary at port 1, of epoch 5.
    private static func begun() -> PrimaryChoice {
        var choice = PrimaryChoice(sentinels: 3)
        _ = choice.received(primary(1, 5), from: 0)
        _ = choice.received(primary(1, 5), from: 1)
        return choice
    }

    @Test("to begin with a majority is needed, and the highest epoch among it counts")
    func beginning() {
        var choice = PrimaryChoice(sentinels: 3)
        #expect(choice.received(Self.primary(1, 4), from: 0) == .undecided)
        #expect(choice.received(Self.primary(1, 4), from: 0) == .undecided)
        #expect(choice.primary == nil)
        #expect(choice.received(Self.primary(2, 5), from: 2) == .found(Self.primary(2, 5)))
        #expect(choice.primary == Self.primary(2, 5))
    }

    @Test("one that is not heard any more does not count")
    func lost() {
        var choice = PrimaryChoice(sentinels: 3)
        _ = choice.received(Self.primary(1, 4), from: 0)
        choice.lost(0)
        #expect(choice.received(Self.primary(1, 4), from: 1) == .undecided)
        #expect(choice.answering == 1)
    }

    @Test("any one Sentinel leads to a higher epoch")
    func following() {
        var choice = Self.begun()
        #expect(choice.received(Self.primary(2, 6), from: 2) == .moved(from: Self.primary(1, 5), to: Self.primary(2, 6)))
        #expect(choice.primary == Self.primary(2, 6))
    }

    @Test("none leads back to a former primary, however many say so, unless another failover made it the primary again")
    func former() {
        var choice = Self.begun()
        _ = choice.received(Self.primary(2, 6), from: 2)
        for sentinel in 0..<3 { #expect(choice.received(Self.primary(1, 5), from: sentinel) == .former(Self.primary(1, 5))) }
        #expect(choice.received(Self.primary(1, 6), from: 0) == .former(Self.primary(1, 6)))
        #expect(choice.primary == Self.primary(2, 6))
        #expect(choice.received(Self.primary(1, 7), from: 0) == .moved(from: Self.primary(2, 6), to: Self.primary(1, 7)))
    }

    @Test("a failover that ended where it began moves nobody")
    func sameAddress() {
        var choice = Self.begun()
        #expect(choice.received(Self.primary(1, 6), from: 0) == .unchanged)
        #expect(choice.received(Self.primary(2, 6), from: 1) == .former(Self.primary(2, 6)))
        #expect(choice.received(Self.primary(1, 5), from: 2) == .unchanged)
    }

    @Test("a server that has another address is followed when a majority names that")
    func moved() {
        var choice = Self.begun()
        #expect(choice.received(Self.primary(9, 5), from: 0) == .former(Self.primary(9, 5)))
        #expect(choice.received(Self.primary(9, 5), from: 1) == .moved(from: Self.primary(1, 5), to: Self.primary(9, 5)))
        #expect(choice.received(Self.primary(1, 5), from: 2) == .former(Self.primary(1, 5)))
    }

    @Test("of two addresses of one epoch that which most name is found, in whatever order they come")
    func ties() {
        for order in [[1, 2, 2], [2, 1, 2], [2, 2, 1]] {
            var choice = PrimaryChoice(sentinels: 5)
            let verdicts = order.enumerated().map { choice.received(Self.primary($1, 5), from: $0) }
            #expect(verdicts.last == .found(Self.primary(2, 5)))
        }
    }

    @Test("one Sentinel alone, or two, must all answer", arguments: [(1, 1), (2, 2), (3, 2), (5, 3)])
    func majorities(sentinels: Int, majority: Int) {
        #expect(PrimaryChoice(sentinels: sentinels).majority == majority)
    }
}
