import InterlockHTTP
import Testing

@Suite("Reads of a response")
struct ResponseReadsTests {
    /// Returns a connection whose last read of a response was large.
    private static func large() -> HTTPClientStateMachine {
        var machine = HTTPClientStateMachine(.connection)
        #expect(machine.begin() == .proceed)
        #expect(machine.bytesReceived(.address(1), isLarge: true) == .deliver)
        return machine
    }

    @Test("A small answer is read immediately")
    func smallAnswerIsReadImmediately() {
        var reads = ResponseReads()
        #expect(reads.readRequested() == .read)
        #expect(reads.readCompleted() == .none)
        #expect(reads.readRequested() == .read)
    }

    @Test("A read held back by the receiver follows once when it resumes")
    func heldBackReadFollowsOnce() {
        var reads = ResponseReads()
        reads.receiverHolds()
        #expect(reads.receiverResumes() == .none)
        reads.receiverHolds()
        #expect(reads.readRequested() == .none)
        reads.receiverHolds()
        #expect(reads.receiverResumes() == .read)
        #expect(reads.receiverResumes() == .none)
    }

    @Test("A large response is read in turns, and each turn ends with its read")
    func largeResponseIsReadInTurns() {
        var reads = Self.large().reads
        for _ in 0..<3 {
            #expect(reads.readRequested() == .requestTurn)
            #expect(reads.readRequested() == .none)
            #expect(reads.readCompleted() == .none)
            #expect(reads.turnStarted() == .read)
            #expect(reads.readCompleted() == .endTurn)
        }
    }

    @Test("A turn without data ends, and another one is requested")
    func emptyTurn() {
        var reads = Self.large().reads
        #expect(reads.readRequested() == .requestTurn)
        #expect(reads.turnStarted() == .read)
        #expect(reads.readRequested() == .endTurnAndRequestAnother)
        #expect(reads.turnStarted() == .read)
        #expect(reads.readCompleted() == .endTurn)
    }

    @Test("A turn that arrives while the receiver holds reads back is not used and is requested again")
    func heldTurn() {
        var reads = Self.large().reads
        #expect(reads.readRequested() == .requestTurn)
        reads.receiverHolds()
        #expect(reads.turnStarted() == .none)
        #expect(reads.readCompleted() == .none)
        #expect(reads.receiverResumes() == .requestTurn)
    }

    @Test("The end of a large response or a small read ends its turns")
    func endOfLargeResponseOrSmallReadEndsTurns() {
        var machine = Self.large()
        #expect(machine.bytesReceived(.address(1), isLarge: false) == .deliver)
        #expect(machine.reads.readRequested() == .read)
        #expect(machine.bytesReceived(.address(1), isLarge: true) == .deliver)
        #expect(machine.responseHead(.final(keepsAlive: true)) == .deliver)
        #expect(machine.responseEnd() == .deliver)
        #expect(machine.reads.readRequested() == .read)
    }
}
