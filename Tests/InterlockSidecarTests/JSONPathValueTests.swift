import FoundationEssentials
import InterlockCore
import Testing

@testable import InterlockSidecar
@testable import SidecarListeners

@Suite("JSON paths: values")
struct JSONPathValueTests {
    private static let document = """
        {"status":"ok","ready":true,"gone":null,"load":0.5,"count":3,"big":9007199254740993,
         "checks":[{"disk space":{"free":12}},"last"],"empty":{}}
        """

    private func value(at path: String) throws -> JSONValue? {
        let document = try JSONDecoder().decode(JSONValue.self, from: Data(Self.document.utf8))
        return try JSONPath(path).value(in: document)
    }

    @Test(
        "The value at a path matches its expected text",
        arguments: [
            ("$.status", "ok"), ("$.ready", "true"), ("$.gone", "null"), ("$.load", "0.5"), ("$.load", "0.50"), ("$.count", "3"),
            ("$.count", "3.0"), ("$.big", "9007199254740993"), ("$.checks[0]['disk space'].free", "12"), ("$.checks[-1]", "last"),
        ])
    func valueAtPathMatchesExpectedText(path: String, text: String) throws {
        let value = try #require(try value(at: path))
        #expect(value.reads(as: text))
    }

    @Test(
        "A different value does not match",
        arguments: [
            ("$.status", "OK"), ("$.ready", "1"), ("$.gone", ""), ("$.load", "0.6"), ("$.count", "4"), ("$.empty", "{}"),
            ("$.big", "9007199254740992"), ("$.checks", "last"),
        ])
    func differentValueDoesNotMatch(path: String, text: String) throws {
        let value = try #require(try value(at: path))
        #expect(!value.reads(as: text))
    }

    @Test(
        "A path to a different kind of value matches nothing",
        arguments: ["$.missing", "$.status.x", "$[0]", "$.checks[2]", "$.checks[-3]", "$.checks.first", "$.empty.x"])
    func pathToDifferentKindOfValueMatchesNothing(path: String) throws {
        #expect(try value(at: path) == nil)
    }
}
