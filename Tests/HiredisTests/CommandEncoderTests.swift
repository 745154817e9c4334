import NIOCore
import Testing

@testable import Hiredis

@Suite("Command encoder")
struct CommandEncoderTests {
    private func wire(_ collect: (inout CommandEncoder) -> Void) -> String {
        var encoder = CommandEncoder()
        collect(&encoder)
        var buffer = ByteBuffer()
        encoder.format(into: &buffer)
        return String(buffer: buffer)
    }

    @Test("a command is an array of bulk strings")
    func array() {
        #expect(
            wire {
                $0.append("SET")
                $0.append("key")
                $0.append("grün")
            } == "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\ngrün\r\n")
    }

    @Test("an argument may be empty, also the last and also the only one")
    func empty() {
        #expect(
            wire {
                $0.append("ECHO")
                $0.append("")
            } == "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n")
        #expect(wire { $0.append("") } == "*1\r\n$0\r\n\r\n")
    }

    @Test("an argument may be any bytes")
    func binary() {
        var encoder = CommandEncoder()
        let bytes = (0...255).map { UInt8($0) }
        encoder.append(bytes)
        var buffer = ByteBuffer()
        encoder.format(into: &buffer)
        #expect(Array(buffer.readableBytesView) == Array("*1\r\n$256\r\n".utf8) + bytes + Array("\r\n".utf8))
    }

    @Test(
        "a number is written in decimal",
        arguments: [0, 7, -7, 10, 100, -100, 1_234_567_890, .max, .min] as [Int64]
    )
    func numbers(value: Int64) {
        let text = "\(value)"
        #expect(wire { $0.append(value) } == "*1\r\n$\(text.utf8.count)\r\n\(text)\r\n")
    }

    @Test("a command is forgotten once it is written")
    func reuse() {
        var encoder = CommandEncoder()
        var buffer = ByteBuffer()
        for word in ["A", "B"] {
            encoder.append(word)
            encoder.format(into: &buffer)
        }
        #expect(String(buffer: buffer) == "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n")
    }
}
