import InterlockCore
import InterlockTesting
import Testing

@testable import RedisClient

@Suite("Reply parser: random input")
struct ReplyFuzzTests {
    private func pieces(of stream: [UInt8], using random: inout SeededRandom) -> [ArraySlice<UInt8>] {
        var pieces: [ArraySlice<UInt8>] = []
        var rest = stream[...]
        while !rest.isEmpty {
            let length = Int.random(in: 1...max(1, min(rest.count, 24)), using: &random)
            pieces.append(rest.prefix(length))
            rest = rest.dropFirst(length)
        }
        return pieces
    }

    @Test("Valid replies are parsed, however they are split", arguments: 0..<200 as Range<UInt64>)
    func roundTrip(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let replies = (0..<Int.random(in: 1...10, using: &random)).map { _ in RedisReply.random(depth: 7, using: &random) }
        let stream = replies.flatMap(\.wire)
        for parsing in [
            Parsing(stream), Parsing(bytewise: stream), Parsing(chunks: pieces(of: stream, using: &random)),
        ] {
            #expect(parsing.replies == replies)
            #expect(parsing.violation == nil)
        }
    }

    @Test("A damaged stream is refused or parsed in the same way however it is split", arguments: 0..<400 as Range<UInt64>)
    func mutations(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var stream = (0..<Int.random(in: 1...5, using: &random)).flatMap { _ in
            RedisReply.random(depth: 4, using: &random).wire
        }
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let position = Int.random(in: 0..<stream.count, using: &random)
            switch Int.random(in: 0..<3, using: &random) {
            case 0: stream[position] = .random(in: .min ... .max, using: &random)
            case 1: stream.insert("$*:+-\r\n09".utf8.randomElement(using: &random) ?? 0, at: position)
            default: if stream.count > 1 { stream.remove(at: position) }
            }
        }
        expectSameOutcome(of: stream, using: &random)
    }

    @Test("Random bytes never crash the parser", arguments: 0..<400 as Range<UInt64>)
    func randomBytesNeverCrashParser(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        // Most bytes are valid, because otherwise the parser would reject most streams at the first byte.
        let alphabet = Array("$*:+-\r\n\r\n0123456789".utf8) + [0, 255]
        let stream = (0..<Int.random(in: 1...300, using: &random)).map { _ in alphabet.randomElement(using: &random) ?? 0 }
        expectSameOutcome(of: stream, using: &random)
    }

    /// Expects the same outcome for any split of the stream. A chunk is checked before it is parsed, so a violation may
    /// suppress earlier replies of its chunk.
    private func expectSameOutcome(of stream: [UInt8], using random: inout SeededRandom) {
        let bytewise = Parsing(bytewise: stream)
        for parsing in [Parsing(stream), Parsing(chunks: pieces(of: stream, using: &random))] {
            #expect((parsing.violation == nil) == (bytewise.violation == nil))
            #expect(bytewise.replies.starts(with: parsing.replies))
            if bytewise.violation == nil { #expect(parsing.replies == bytewise.replies) }
        }
    }
}

extension RedisReply {
    /// Returns a random reply with arrays at most `depth` deep.
    static func random(depth: Int, using random: inout SeededRandom) -> RedisReply {
        switch Int.random(in: 0..<(depth > 0 ? 8 : 6), using: &random) {
        case 0: .status(randomText(using: &random))
        case 1: .error(RedisError(.server(.error), "ERR " + randomText(using: &random)))
        case 2: .integer(.random(in: .min ... .max, using: &random))
        case 3: .integer([.min, .max, 0, -1].randomElement(using: &random) ?? 0)
        case 4: .null
        case 5:
            .bulk((0..<Int.random(in: 0..<40, using: &random)).map { _ in .random(in: .min ... .max, using: &random) })
        default:
            .array((0..<Int.random(in: 0..<5, using: &random)).map { _ in .random(depth: depth - 1, using: &random) })
        }
    }

    private static func randomText(using random: inout SeededRandom) -> String {
        String((0..<Int.random(in: 0..<20, using: &random)).map { _ in "abc XYZ$*:+-09".randomElement(using: &random) ?? "a" })
    }
}
