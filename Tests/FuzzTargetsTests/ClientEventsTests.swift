import FuzzTargets
import InterlockCore
import Testing

@Suite("Fuzzing: the events of a RESP client")
struct ClientEventsTests {
    @Test("A connection keeps its promises in any order of events", arguments: 0..<8 as Range<UInt64>)
    func anyOrder(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        for _ in 0..<300 {
            let length = Int.random(in: 2...60, using: &random)
            try FuzzTarget.client.run((0..<length).map { _ in UInt8.random(in: .min ... .max, using: &random) })
        }
    }

    @Test("A long-lived connection keeps its promises", arguments: 0..<8 as Range<UInt64>)
    func longLived(seed: UInt64) throws {
        // All events except those that end a connection, by their numbers in `ClientProperties`.
        let events: [UInt8] = [0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15]
        var random = SeededRandom(seed: seed)
        for _ in 0..<40 {
            let input = try (0..<150).map { _ in
                let event = try #require(events.randomElement(using: &random))
                return event + 20 * UInt8.random(in: 0...11, using: &random)
            }
            try FuzzTarget.client.run([UInt8.random(in: 0...1, using: &random)] + input)
        }
    }
}
