import InterlockHTTP
import NIOCore
import NIOHTTP1
import Testing

@Suite("Bytes of fields as text")
struct OpaqueTextTests {
    @Test("bytes become text and bytes again without loss", arguments: ProxyBytesTests.values + [[], Array(0...255)])
    func lossless(bytes: [UInt8]) {
        #expect(OpaqueText.bytes(of: Array(OpaqueText.text(of: bytes).utf8)) == bytes)
    }

    @Test("text that is UTF-8 is that text")
    func valid() {
        #expect(OpaqueText.text(of: Array("é€😀\u{FFFD}".utf8)) == "é€😀\u{FFFD}")
    }

    @Test("where only text can be sent, a byte is sent as its character of Latin-1")
    func readable() {
        #expect(OpaqueText.readable(OpaqueText.text(of: [0x63, 0xE9, 0xC3, 0xA9])) == "céé")
    }

    @Test("random bytes survive")
    func random() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<2000 {
            let bytes = (0..<Int.random(in: 0...12, using: &generator)).map { _ in
                [0x41, 0xC3, 0xA9, 0xF4, 0x8F, 0xBE, 0xBF, 0x80, 0xED, 0xEF, 0xBD, 0xFF].randomElement(using: &generator) ?? 0
            }.map { UInt8($0) }
            #expect(OpaqueText.bytes(of: Array(OpaqueText.text(of: bytes).utf8)) == bytes, "\(bytes)")
        }
    }

    @Test(
        "a server says for how long it keeps a connection",
        arguments: [
            ("timeout=5", 5), ("timeout=5, max=100", 5), ("max=100,\tTimeout = 2", 2), ("max=100", nil), ("timeout=x", nil),
            ("timeout=-1", nil), ("timeout=99999999999", 86_400),
        ] as [(String, Int64?)])
    func keepAlive(value: String, seconds: Int64?) {
        #expect(HTTPHeaders([("keep-alive", value)]).keepAlive == seconds.map { TimeAmount.seconds($0) })
    }

    @Test(
        "a transfer coding besides chunked is noticed",
        arguments: [
            ("chunked", nil), ("Chunked ", nil), ("identity", nil), ("gzip, chunked", "gzip"), ("chunked, chunked", "chunked"),
            ("xchunked", "xchunked"),
        ] as [(String, String?)])
    func codings(value: String, unknown: String?) {
        #expect(HTTPHeaders([("Transfer-Encoding", value)]).unknownTransferCoding == unknown)
    }
}
