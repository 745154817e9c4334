import NIOCore
import NIOEmbedded
import Testing

@testable import InterlockHTTP

@Suite("Large reads")
struct LargeReadLimiterTests {
    /// The order in which readers got their turns.
    private final class Line {
        final class Reader: LargeReader {
            let number: Int
            let line: Line
            var isOpen = true

            init(_ number: Int, _ line: Line) {
                self.number = number
                self.line = line
            }

            func readInTurn() -> Bool {
                if isOpen { line.read.append(number) }
                return isOpen
            }
        }

        let loop = EmbeddedEventLoop()
        var read: [Int] = []
        private(set) lazy var turns = LargeReadLimiter(eventLoop: loop)

        func requestTurn(_ numbers: Range<Int>) -> [Reader] {
            let readers = numbers.map { Reader($0, self) }
            for reader in readers { turns.requestTurn(reader) }
            return readers
        }
    }

    @Test("Four readers at a time read, in the order of their requests")
    func atMostFourReadersRead() {
        let line = Line()
        let readers = line.requestTurn(0..<10)
        #expect(line.read == [0, 1, 2, 3])
        for number in 4..<10 {
            line.turns.endTurn()
            #expect(line.read == Array(0...number))
        }
        withExtendedLifetime(readers) {}
    }

    @Test("Readers of slow servers do not keep a turn for long")
    func slow() {
        let line = Line()
        _ = line.requestTurn(0..<10)
        line.loop.advanceTime(by: .microseconds(249))
        #expect(line.read.count == 4)
        line.loop.advanceTime(by: .microseconds(1))
        #expect(line.read.count == 8)
        line.loop.advanceTime(by: .microseconds(250))
        #expect(line.read == Array(0..<10))
        // Late ends of slow turns do not make more turns available than there are.
        for _ in 0..<10 { line.turns.endTurn() }
        _ = line.requestTurn(10..<20)
        #expect(line.read.count == 14)
    }

    @Test("Readers that ended before their turn cost neither a turn nor stack depth")
    func over() {
        let line = Line()
        _ = line.requestTurn(0..<4)
        for reader in line.requestTurn(4..<100_000) { reader.isOpen = false }
        _ = line.requestTurn(100_000..<100_001)
        line.turns.endTurn()
        #expect(line.read == [0, 1, 2, 3, 100_000])
    }
}
