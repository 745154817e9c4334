import Glibc
import InterlockOutput
import NIOConcurrencyHelpers
import Testing

/// Tests with a pipe that is read only when a test reads it.
@Suite("Line writer", .timeLimit(.minutes(1)))
struct LineWriterTests {
    init() { signal(SIGPIPE, SIG_IGN) }

    private struct Pipe {
        let reader: Int32
        let writer: Int32

        init() {
            var ends: [Int32] = [0, 0]
            precondition(pipe(&ends) == 0, "the system has no descriptor for a pipe")
            (reader, writer) = (ends[0], ends[1])
        }

        /// Reads lines up to the first for which `isLast` holds.
        func lines(until isLast: (Substring) -> Bool) -> [Substring] {
            var lines: [Substring] = []
            var rest: Substring = ""
            var part = [UInt8](repeating: 0, count: 1 << 16)
            while true {
                let count = read(reader, &part, part.count)
                guard count > 0 else { return lines }
                rest += String(decoding: part.prefix(count), as: UTF8.self)
                while let end = rest.firstIndex(of: "\n") {
                    lines.append(rest[..<end])
                    rest = rest[end...].dropFirst()
                    if isLast(lines[lines.count - 1]) { return lines }
                }
            }
        }

        /// Reads lines up to `text`.
        func lines(to text: String) -> [Substring] { lines { $0 == text } }

        /// Closes the reader. The writer stays open, because a line writer that is still busy must not write to a
        /// descriptor that another test has opened under the same number.
        func close() { Glibc.close(reader) }
    }

    @Test("Callers never wait, lines keep their order, and dropped lines are counted at their position")
    func callersNeverWait() {
        let pipe = Pipe()
        defer { pipe.close() }
        let writer = LineWriter(pipe.writer)
        let dropped = NIOLockedValueBox(0)
        writer.reportDrops(as: { "\($0) dropped" }, onDrop: { dropped.withLockedValue { $0 += 1 } })
        let filling = String(repeating: ".", count: 1000)
        for number in 0..<3000 { writer.add("\(filling)\(number)") }
        #expect(dropped.withLockedValue { $0 } > 0)
        #expect(writer.isBusy)
        // Lines can be dropped more than once, for example when the queue starts late. Each gap has its own count.
        var next = 0
        let lines = pipe.lines { line in
            if line.hasSuffix(" dropped"), let count = Int(line.dropLast(" dropped".count)) {
                next += count
            } else if line == "\(filling)\(next)" {
                next += 1
            } else {
                next = .max
            }
            return next >= 3000
        }
        #expect(next == 3000)
        let written = lines.count { $0.hasPrefix(filling) }
        #expect(written + dropped.withLockedValue { $0 } == 3000)
        writer.add("later")
        #expect(pipe.lines(to: "later") == ["later"])
    }

    @Test("A flush gives up after its timeout, and later messages do not wait again")
    func flushGivesUpAfterTimeout() {
        let pipe = Pipe()
        defer { pipe.close() }
        let writer = LineWriter(pipe.writer)
        writer.add(String(repeating: ".", count: 1 << 17))
        let clock = ContinuousClock()
        #expect(clock.measure { writer.add("one", waiting: .milliseconds(100)) } >= .milliseconds(100))
        // The first message timed out and nothing was written since, so the second one does not wait.
        #expect(clock.measure { writer.add("two", waiting: .seconds(60)) } < .seconds(30))
        #expect(pipe.lines(to: "two").suffix(2) == ["one", "two"])
    }

    @Test("A task that waits for its line ends when it is cancelled")
    func cancelledTaskStopsWaitingForLine() async {
        let pipe = Pipe()
        defer { pipe.close() }
        let writer = LineWriter(pipe.writer)
        let task = Task { await writer.write(String(repeating: ".", count: 1 << 17)) }
        task.cancel()
        #expect(await task.value == false)
    }

    @Test("A write to a pipe without a reader fails")
    func closedPipe() async {
        let pipe = Pipe()
        close(pipe.reader)
        defer { close(pipe.writer) }
        let writer = LineWriter(pipe.writer)
        #expect(await writer.write("line") == false)
    }
}
