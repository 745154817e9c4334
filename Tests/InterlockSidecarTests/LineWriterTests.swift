import Glibc
import InterlockSidecar
import NIOConcurrencyHelpers
import Testing

/// Each test has a pipe whose reader does not read until it is told to.
@Suite("Lines to a pipe that nobody reads", .timeLimit(.minutes(1)))
struct LineWriterTests {
    private struct Pipe {
        let reader: Int32
        let writer: Int32

        init() {
            var ends: [Int32] = [0, 0]
            precondition(pipe(&ends) == 0, "the system has no descriptor for a pipe")
            (reader, writer) = (ends[0], ends[1])
        }

        /// Reads until the line that ends with `text` has come.
        func lines(to text: String) -> [Substring] {
            var bytes: [UInt8] = []
            var part = [UInt8](repeating: 0, count: 1 << 16)
            while !bytes.reversed().starts(with: (text + "\n").utf8.reversed()) {
                let count = read(reader, &part, part.count)
                guard count > 0 else { break }
                bytes += part.prefix(count)
            }
            return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        }

        func close() {
            Glibc.close(reader)
            Glibc.close(writer)
        }
    }

    @Test("callers never wait, the order is kept, and what was dropped is counted where it would stand")
    func drops() {
        let pipe = Pipe()
        defer { pipe.close() }
        let writer = LineWriter(pipe.writer)
        let dropped = NIOLockedValueBox(0)
        writer.reportDrops(as: { "\($0) dropped" }, onDrop: { dropped.withLockedValue { $0 += 1 } })
        let filling = String(repeating: ".", count: 1000)
        for number in 0..<3000 { writer.add("\(filling)\(number)") }
        let count = dropped.withLockedValue { $0 }
        #expect(count > 0)
        #expect(writer.isBusy)
        let first = pipe.lines(to: "\(count) dropped")
        #expect(first.dropLast().enumerated().allSatisfy { $1 == "\(filling)\($0)" })
        #expect(first.count - 1 + count == 3000)
        writer.add("later")
        #expect(pipe.lines(to: "later") == ["later"])
    }

    @Test("a flush gives up after its time, and later messages do not wait again")
    func flush() {
        let pipe = Pipe()
        defer { pipe.close() }
        let writer = LineWriter(pipe.writer)
        writer.add(String(repeating: ".", count: 1 << 17))
        let clock = ContinuousClock()
        #expect(clock.measure { writer.add("one", waiting: .milliseconds(100)) } >= .milliseconds(100))
        // A second would be ten times as long: the first was in vain, and nothing was written since.
        #expect(clock.measure { writer.add("two", waiting: .seconds(60)) } < .seconds(30))
        #expect(pipe.lines(to: "two").suffix(2) == ["one", "two"])
    }

    @Test("a task that waits for its line ends when it is cancelled")
    func cancellation() async {
        let pipe = Pipe()
        defer { pipe.close() }
        let writer = LineWriter(pipe.writer)
        let task = Task { await writer.write(String(repeating: ".", count: 1 << 17)) }
        task.cancel()
        #expect(await task.value == false)
    }

    @Test("a line to a pipe without a reader is counted as dropped, and ends a listing")
    func closedPipe() async {
        signal(SIGPIPE, SIG_IGN)
        let pipe = Pipe()
        close(pipe.reader)
        defer { close(pipe.writer) }
        let writer = LineWriter(pipe.writer)
        #expect(await writer.write("line") == false)
    }
}
