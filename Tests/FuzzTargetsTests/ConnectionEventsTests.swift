import FuzzTargets
import InterlockCore
import Testing

@Suite("Fuzzing: the events of a connection")
struct ConnectionEventsTests {
    @Test(
        "A connection keeps its promises in any order of events", arguments: [FuzzTarget.connection, .server],
        0..<8 as Range<UInt64>)
    func anyOrder(target: FuzzTarget, seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        for _ in 0..<2000 {
            let length = Int.random(in: 2...120, using: &random)
            try target.run((0..<length).map { _ in UInt8.random(in: .min ... .max, using: &random) })
        }
    }

    /// Complete exchanges, by the numbers of the events in `ConnectionProperties` and `ServerProperties`.
    private static let inOrder: [(FuzzTarget, [UInt8])] = [
        (.connection, [0, 1, 2, 3, 4, 33, 10, 14, 15, 16]),
        (.server, [0, 0, 17, 0, 27, 9, 51, 0, 10, 6, 6, 6, 13, 6, 11, 17]),
    ]

    @Test("A connection keeps its promises if a few events are out of order", arguments: inOrder, 0..<8 as Range<UInt64>)
    func almostInOrder(exchange: (target: FuzzTarget, events: [UInt8]), seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        for _ in 0..<2000 {
            var events = exchange.events + exchange.events + exchange.events
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let index = Int.random(in: 0..<events.count, using: &random)
                let event = UInt8.random(in: .min ... .max, using: &random)
                if Bool.random(using: &random) { events.insert(event, at: index) } else { events[index] = event }
            }
            try exchange.target.run([UInt8.random(in: 0...1, using: &random)] + events)
        }
    }
}
