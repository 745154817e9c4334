import FuzzTargets
import InterlockCore
import Testing

@Suite("Fuzzing: the events of a connection")
struct ConnectionEventsTests {
    @Test("the promises hold in any order of events", arguments: 0..<8 as Range<UInt64>)
    func anyOrder(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        for _ in 0..<2000 {
            let length = Int.random(in: 2...120, using: &random)
            try FuzzTarget.connection.run((0..<length).map { _ in UInt8.random(in: .min ... .max, using: &random) })
        }
    }

    @Test("the promises hold where a few events are out of order", arguments: 0..<8 as Range<UInt64>)
    func almostInOrder(seed: UInt64) throws {
        // One whole exchange; the numbers of the events are those of `ConnectionPromises`.
        let inOrder: [UInt8] = [0, 1, 2, 3, 4, 33, 10, 14, 15, 16]
        var random = SeededRandom(seed: seed)
        for _ in 0..<2000 {
            var events = inOrder + inOrder + inOrder
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let index = Int.random(in: 0..<events.count, using: &random)
                let event = UInt8.random(in: .min ... .max, using: &random)
                if Bool.random(using: &random) { events.insert(event, at: index) } else { events[index] = event }
            }
            try FuzzTarget.connection.run([UInt8.random(in: 0...1, using: &random)] + events)
        }
    }
}
