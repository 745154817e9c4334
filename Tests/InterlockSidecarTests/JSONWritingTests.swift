import FoundationEssentials
import InterlockCore
import NIOCore
import Testing

@testable import SidecarListeners

@Suite("JSON: agreement with JSONEncoder and JSONDecoder")
struct JSONWritingTests {
    private static func written(_ value: JSONValue) -> String {
        var buffer = ByteBuffer()
        value.write(into: &buffer)
        return String(buffer: buffer)
    }

    @Test("Every character is escaped as JSONEncoder escapes it", arguments: 0..<0x180)
    func characters(code: UInt32) throws {
        let scalar = try #require(UnicodeScalar(code))
        let value = JSONValue.object(["k\(scalar)": .string("a\(scalar)b")])
        #expect(Self.written(value) == String(decoding: try value.json(), as: UTF8.self))
    }

    @Test(
        "Every kind of value is written as JSONEncoder writes it",
        arguments: [
            .null, .bool(true), .bool(false), .integer(.min), .integer(.max), .integer(0), .number(0.1), .number(-1e300),
            .number(3), .string(""), .string("😀/\u{2028}"), .array([]), .object([:]),
            .array([.null, .array([.integer(1)]), .object(["b": .string("x"), "a": .bool(true), "é": .null, "A": .null])]),
        ] as [JSONValue])
    func kinds(value: JSONValue) throws {
        #expect(Self.written(.array([value])) == String(decoding: try JSONValue.array([value]).json(), as: UTF8.self))
    }

    @Test(
        "JSONDecoder and the parser accept the same bodies",
        arguments: [
            "{}", " { } ", "{\"a\":1}", "{\"a\" : -0 , \"b\":\"x\"}\n", "{\"a\":true,\"b\":false,\"c\":null}", "{\"a\":01}",
            "{\"a\":-}",
            "{\"a\":1.5}", "{\"a\":1e3}", "{\"a\":999999999999999999}", "{\"a\":9223372036854775807}",
            "{\"a\":9223372036854775808}",
            "{\"a\":\"\\n\"}", "{\"a\":\"é\"}", "{\"a\":1,\"a\":2}", "{\"a\":1,}", "{,}", "{\"a\"}", "{\"a\":1}x", "{\"a\":1",
            "{\"a\":truex}",
            "{\"a\":\"\t\"}", "{\"\":\"\"}", "[1]", "1", "", "null", "{\"a\":[1]}", "{\"a\":{\"b\":1}}", "{\"a\":+1}",
            "{\"a\":1 2}", "\u{FEFF}{}",
        ])
    func jsonDecoderAndParserAcceptSameBodies(body: String) {
        let decoded = try? JSONDecoder().decode(JSONValue.self, from: Data(body.utf8))
        #expect((try? JSONValue(reading: Array(body.utf8), maximumDepth: 3)) == decoded)
        #expect((try? JSONValue(reading: ByteBuffer(string: body).readableBytesView, maximumDepth: 3)) == decoded)
    }
}
