import InterlockCore
import Testing

@Suite("JSON paths: one value of a document")
struct JSONPathTests {
    @Test("names and numbers, with dots and brackets")
    func steps() throws {
        let path = try JSONPath("$.checks[0]['disk space'][\"a\\\"b\"].status-2[-1]")
        #expect(
            path.steps == [
                .member("checks"), .element(0), .member("disk space"), .member("a\"b"), .member("status-2"), .element(-1),
            ])
    }

    @Test("$ alone is the document")
    func document() throws {
        #expect(try JSONPath("$").steps.isEmpty)
    }

    @Test(
        "what is not a path to one value is refused with its place",
        arguments: [
            ("status", "a path begins with $ (character 1)"), ("", "a path begins with $ (character 1)"),
            ("$status", "expected . or [ before \"s\" (character 2)"),
            ("$..status", "expected a name behind the dot; others than letters, digits, _ and - stand in ['…'] (character 3)"),
            ("$.a[*]", "expected a number or a name in quotes; a path to several values is not one value (character 5)"),
            ("$[0:2]", "expected ] (character 4)"), ("$['a", "a name in quotes does not end (character 5)"),
            ("$[0", "expected ] (character 4)"), ("$['\\n']", "only quotes, \\ and / stand behind a \\ (character 5)"),
            (
                "$[99999999999999999999]",
                "expected a number or a name in quotes; a path to several values is not one value (character 3)"
            ),
        ])
    func refused(path: String, reason: String) {
        let violation = #expect(throws: JSONPath.Violation.self) { try JSONPath(path) }
        #expect(violation?.description == reason)
    }
}
