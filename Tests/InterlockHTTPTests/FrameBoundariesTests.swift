import InterlockCore
import InterlockHTTP
import NIOCore
import Testing

@Suite("Frame boundaries in a client's bytes")
struct FrameBoundariesTests {
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    private static let unknown: UInt8 = 0x2A
    private static let headers: UInt8 = 1
    private static let continuation: UInt8 = 9
    private static let endHeaders: UInt8 = 4

    private static func frame(_ length: Int, _ type: UInt8 = unknown, flags: UInt8 = 0) -> [UInt8] {
        [UInt8(length >> 16), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF), type, flags, 0, 0, 0, 0]
            + Array(repeating: 7, count: length)
    }

    @Test(
        "The parser regularly reaches a frame's end, however frames and reads are aligned", arguments: 0..<10 as Range<UInt64>)
    func parserRegularlyReachesFrameEnd(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let readSize = [1, 7, 1024, 16_384, 65_536].randomElement(using: &random) ?? 1
        let longest = [0, 1, 500, 16_384].randomElement(using: &random) ?? 0
        var sent = Self.preface
        var ends: Set<Int> = [sent.count]
        while sent.count < 200_000 {
            let length = Int.random(in: longest / 2...longest, using: &random)
            if Bool.random(using: &random) {
                sent += Self.frame(length)
            } else {
                // The parser buffers everything between these two frames.
                sent += Self.frame(length, Self.headers)
                sent += Self.frame(length, Self.continuation, flags: Self.endHeaders)
            }
            ends.insert(sent.count)
        }
        var boundaries = FrameBoundaries(prefaceLength: Self.preface.count)
        var forwarded: [UInt8] = []
        var lastEnd = 0
        var maximumUncut = 0
        var isEmptyForwarded = false
        for start in stride(from: 0, to: sent.count, by: readSize) {
            let parts = boundaries.parts(ByteBuffer(bytes: sent[start..<min(start + readSize, sent.count)]))
            for part in [parts.first, parts.rest].compactMap(\.self) {
                if part.readableBytes == 0 { isEmptyForwarded = true }
                forwarded += part.readableBytesView
                if ends.contains(forwarded.count) { lastEnd = forwarded.count }
                maximumUncut = max(maximumUncut, forwarded.count - lastEnd)
            }
        }
        #expect(forwarded == sent)
        #expect(maximumUncut <= 65_536 + 2 * (16_384 + 9) + readSize)
        #expect(!isEmptyForwarded)
    }

    @Test("Bytes that are not frames are passed on unchanged")
    func bytesThatAreNotFramesArePassedOnUnchanged() {
        var boundaries = FrameBoundaries(prefaceLength: Self.preface.count)
        for byte in [0xFF, 0, 0x20] as [UInt8] {
            let bytes = ByteBuffer(repeating: byte, count: 100_000)
            let parts = boundaries.parts(bytes)
            var all = parts.first
            if var rest = parts.rest { all.writeBuffer(&rest) }
            #expect(all == bytes)
        }
    }

    @Test("Frames that end with a read are not split")
    func framesThatEndWithReadAreNotSplit() {
        var boundaries = FrameBoundaries(prefaceLength: Self.preface.count)
        #expect(boundaries.parts(ByteBuffer(bytes: Self.preface)).rest == nil)
        for _ in 0..<1000 { #expect(boundaries.parts(ByteBuffer(bytes: Self.frame(100) + Self.frame(0))).rest == nil) }
    }
}
