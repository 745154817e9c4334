import InterlockHTTP
import NIOCore
import NIOHTTP1
import Testing

@Suite("Field bytes as text")
struct OpaqueTextTests {
    @Test("Bytes survive the conversion to text and back", arguments: ProxyBytesTests.values + [[], Array(0...255)])
    func bytesSurviveConversionToTextAndBack(bytes: [UInt8]) {
        #expect(OpaqueText.bytes(of: Array(OpaqueText.text(of: bytes).utf8)) == bytes)
    }

    @Test("UTF-8 bytes become the same text")
    func utf8BytesBecomeSameText() {
        #expect(OpaqueText.text(of: Array("é€😀\u{FFFD}".utf8)) == "é€😀\u{FFFD}")
    }

    @Test("A byte is sent as its Latin-1 character where only text can be sent")
    func readable() {
        #expect(OpaqueText.readable(OpaqueText.text(of: [0x63, 0xE9, 0xC3, 0xA9])) == "céé")
    }

    @Test("Random bytes survive")
    func randomBytesSurvive() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<2000 {
            let bytes = (0..<Int.random(in: 0...12, using: &generator)).map { _ in
                [0x41, 0xC3, 0xA9, 0xF4, 0x8F, 0xBE, 0xBF, 0x80, 0xED, 0xEF, 0xBD, 0xFF].randomElement(using: &generator) ?? 0
            }.map { UInt8($0) }
            #expect(OpaqueText.bytes(of: Array(OpaqueText.text(of: bytes).utf8)) == bytes, "\(bytes)")
        }
    }

    @Test(
        "A server's keep-alive timeout is parsed",
        arguments: [
            ("timeout=5", 5), ("timeout=5, max=100", 5), ("max=100,\tTimeout = 2", 2), ("max=100", nil), ("timeout=x", nil),
            ("timeout=-1", nil), ("timeout=99999999999", 86_400),
        ] as [(String, Int64?)])
    func keepAliveTimeout(value: String, seconds: Int64?) {
        #expect(HTTPHeaders([("keep-alive", value)]).keepAliveTimeout == seconds.map { TimeAmount.seconds($0) })
    }

    @Test(
        "A transfer coding other than chunked is detected",
        arguments: [
            ("chunked", nil), ("Chunked ", nil), ("identity", nil), ("gzip, chunked", "gzip"), ("chunked, chunked", "chunked"),
            ("xchunked", "xchunked"),
        ] as [(String, String?)])
    func transferCodingOtherThanChunkedIsDetected(value: String, unknown: String?) {
        #expect(HTTPHeaders([("Transfer-Encoding", value)]).unsupportedTransferCoding == unknown)
    }
}
