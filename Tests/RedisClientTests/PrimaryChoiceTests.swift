import Testing

@testable import RedisClient

@Suite("Choice of the primary that Sentinels report")
struct PrimaryChoiceTests {
    private static func primary(_ port: Int, _ epoch: Int64) -> PrimaryChoice.Primary {
        PrimaryChoice.Primary(.host("10.0.0.1", port: port), epoch: epoch)
    }

    /// Returns the choice among three Sentinels after two have named the primary at port 1, of epoch 5.
    private static func choiceAfterMajority() -> PrimaryChoice {
        var choice = PrimaryChoice(sentinelCount: 3)
        _ = choice.primaryReported(primary(1, 5), by: 0)
        _ = choice.primaryReported(primary(1, 5), by: 1)
        return choice
    }

    @Test("The first primary needs a majority, and the highest epoch in it counts")
    func firstPrimaryNeedsMajority() {
        var choice = PrimaryChoice(sentinelCount: 3)
        #expect(choice.primaryReported(Self.primary(1, 4), by: 0) == .undecided)
        #expect(choice.primaryReported(Self.primary(1, 4), by: 0) == .undecided)
        #expect(choice.primary == nil)
        #expect(choice.primaryReported(Self.primary(2, 5), by: 2) == .found(Self.primary(2, 5)))
        #expect(choice.primary == Self.primary(2, 5))
    }

    @Test("A Sentinel that no longer answers does not count")
    func sentinelThatNoLongerAnswersDoesNotCount() {
        var choice = PrimaryChoice(sentinelCount: 3)
        _ = choice.primaryReported(Self.primary(1, 4), by: 0)
        choice.sentinelLost(0)
        #expect(choice.primaryReported(Self.primary(1, 4), by: 1) == .undecided)
        #expect(choice.answeringCount == 1)
    }

    @Test("Any one Sentinel can lead to a higher epoch")
    func anyOneSentinelCanLeadToHigherEpoch() {
        var choice = Self.choiceAfterMajority()
        #expect(
            choice.primaryReported(Self.primary(2, 6), by: 2)
                == .moved(from: Self.primary(1, 5), to: Self.primary(2, 6)))
        #expect(choice.primary == Self.primary(2, 6))
    }

    @Test("No number of Sentinels leads back to a former primary, unless another failover promoted it again")
    func sentinelsNeverLeadBackToFormerPrimary() {
        var choice = Self.choiceAfterMajority()
        _ = choice.primaryReported(Self.primary(2, 6), by: 2)
        for sentinel in 0..<3 {
            #expect(choice.primaryReported(Self.primary(1, 5), by: sentinel) == .former(Self.primary(1, 5)))
        }
        #expect(choice.primaryReported(Self.primary(1, 6), by: 0) == .former(Self.primary(1, 6)))
        #expect(choice.primary == Self.primary(2, 6))
        #expect(
            choice.primaryReported(Self.primary(1, 7), by: 0)
                == .moved(from: Self.primary(2, 6), to: Self.primary(1, 7)))
    }

    @Test("A failover that ended where it began does not move a connection")
    func sameAddress() {
        var choice = Self.choiceAfterMajority()
        #expect(choice.primaryReported(Self.primary(1, 6), by: 0) == .unchanged)
        #expect(choice.primaryReported(Self.primary(2, 6), by: 1) == .former(Self.primary(2, 6)))
        #expect(choice.primaryReported(Self.primary(1, 5), by: 2) == .unchanged)
    }

    @Test("A server with a new address is followed once a majority reports that address")
    func moved() {
        var choice = Self.choiceAfterMajority()
        #expect(choice.primaryReported(Self.primary(9, 5), by: 0) == .former(Self.primary(9, 5)))
        #expect(
            choice.primaryReported(Self.primary(9, 5), by: 1)
                == .moved(from: Self.primary(1, 5), to: Self.primary(9, 5)))
        #expect(choice.primaryReported(Self.primary(1, 5), by: 2) == .former(Self.primary(1, 5)))
    }

    @Test("Of two addresses with the same epoch, the one reported most often wins, in any order of answers")
    func ties() {
        for order in [[1, 2, 2], [2, 1, 2], [2, 2, 1]] {
            var choice = PrimaryChoice(sentinelCount: 5)
            let verdicts = order.enumerated().map { choice.primaryReported(Self.primary($1, 5), by: $0) }
            #expect(verdicts.last == .found(Self.primary(2, 5)))
        }
    }

    @Test("If only one or two Sentinels are configured, all must answer", arguments: [(1, 1), (2, 2), (3, 2), (5, 3)])
    func majorities(sentinels: Int, majority: Int) {
        #expect(PrimaryChoice(sentinelCount: sentinels).majority == majority)
    }
}
