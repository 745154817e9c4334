import InterlockHTTP
import Testing

@Suite("Reads of a response")
struct ResponseReadsTests {
    /// A connection whose last read of a response was large.
    private static func large() -> HTTPClientStateMachine {
        var machine = HTTPClientStateMachine(.connection)
        #expect(machine.begin() == .proceed)
        #expect(machine.bytesReceived(.address(1), isLarge: true) == .deliver)
        return machine
    }

    @Test("A small answer is read immediately")
    func small() {
        var reads = ResponseReads()
        #expect(reads.requested() == .read)
        #expect(reads.completed() == .none)
        #expect(reads.requested() == .read)
    }

    @Test("A read held back by the receiver follows once when it resumes")
    func held() {
        var reads = ResponseReads()
        reads.receiverHolds()
        #expect(reads.receiverResumes() == .none)
        reads.receiverHolds()
        #expect(reads.requested() == .none)
        reads.receiverHolds()
        #expect(reads.receiverResumes() == .read)
        #expect(reads.receiverResumes() == .none)
    }

    @Test("A large response is read in turns, and each turn ends with its read")
    func turns() {
        var reads = Self.large().reads
        for _ in 0..<3 {
            #expect(reads.requested() == .requestTurn)
            #expect(reads.requested() == .none)
            #expect(reads.completed() == .none)
            #expect(reads.turnStarted() == .read)
            #expect(reads.completed() == .endTurn)
        }
    }

    @Test("A turn without data is ended and another one requested")
    func emptyTurn() {
        var reads = Self.large().reads
        #expect(reads.requested() == .requestTurn)
        #expect(reads.turnStarted() == .read)
        #expect(reads.requested() == .endTurnAndRequestAnother)
        #expect(reads.turnStarted() == .read)
        #expect(reads.completed() == .endTurn)
    }

    @Test("A turn that arrives while the receiver holds reads back is not used and is requested again")
    func heldTurn() {
        var reads = Self.large().reads
        #expect(reads.requested() == .requestTurn)
        reads.receiverHolds()
        #expect(reads.turnStarted() == .none)
        #expect(reads.completed() == .none)
        #expect(reads.receiverResumes() == .requestTurn)
    }

    @Test("The end of a large response or a small read ends its turns")
    func over() {
        var machine = Self.large()
        #expect(machine.bytesReceived(.address(1), isLarge: false) == .deliver)
        #expect(machine.reads.requested() == .read)
        #expect(machine.bytesReceived(.address(1), isLarge: true) == .deliver)
        #expect(machine.responseHead(.final(keepsAlive: true)) == .deliver)
        #expect(machine.responseEnd() == .deliver)
        #expect(machine.reads.requested() == .read)
    }
}
