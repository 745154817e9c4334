import InterlockCore
import Testing

@Suite("Regular expressions")
struct RegularExpressionTests {
    @Test(
        "a match is found",
        arguments: [
            ("ok", "it is ok"), ("^ok$", "ok"), ("a.c", "abc"), ("colou?r", "color"), ("a|b|c", "xxc"), ("(ab)+c", "ababc"),
            ("[a-f]+9", "xdead9"), ("[^0-9]", "1a"), ("\\d{3}", "ab123"), ("\\bup\\b", "it is up."), ("x{2,}y", "xxxy"),
            ("x{0,2}y", "y"), ("a*?b", "aab"), ("(?i)healthy", "HeAlThY"), ("(?i)[a-c]{2}", "BC"), ("(?:a|b)c", "bc"),
            ("\\Aok", "ok"), ("ok\\z", "ok"), ("\"status\":\\s*\"ok\"", "{\"status\": \"ok\"}"), ("{\"a\"", "{\"a\""),
            ("", "anything"), ("\\S\\W\\D", "a-b"), ("[\\d.]+", "1.5"), ("[a-]+", "-"), ("grün", "alles grün"),
            ("(a*)*b", "aaab"), ("(){1000}a", "a"), ("()*a", "a"), ("a$|b", "ab"), ("[\\]]", "]"), (".", "\u{1F600}"),
            ("a||b", ""), ("[^\\S\\n]", " "), ("(?i)[^a]", "b"),
        ])
    func found(expression: String, text: String) throws {
        let search = try RegularExpression(expression).search(in: text)
        #expect(search == .found)
    }

    @Test(
        "a mismatch is not found",
        arguments: [
            ("ok", "not o-k"), ("^ok", "not ok"), ("ok$", "ok\n"), ("a.c", "a\nc"), ("[^0-9]", "123"), ("\\bup\\b", "upper"),
            ("x{3}", "xx"), ("(?i)[^a]", "A"), ("a+b", "b"), ("\\Bup", "up"), ("(ab){2}", "abba"), ("[a-c]", "d"), ("a", ""),
            ("healthy", "HEALTHY"), ("\\d", "\u{0661}"), ("a$b", "ab"),
        ])
    func notFound(expression: String, text: String) throws {
        let search = try RegularExpression(expression).search(in: text)
        #expect(search == .notFound)
    }

    @Test("a class of many characters contains each of them and none in between")
    func manyRanges() throws {
        let scalars = (0x100..<0x300).compactMap(Unicode.Scalar.init)
        let members = scalars.filter { $0.value.isMultiple(of: 2) }.map(String.init).joined()
        let expression = try RegularExpression("^[\(members)]$")
        for scalar in scalars {
            let search = expression.search(in: String(scalar))
            #expect(search == (scalar.value.isMultiple(of: 2) ? .found : .notFound))
        }
    }

    @Test(
        "wrong syntax, or syntax that needs unbounded time, is refused with its position",
        arguments: [
            ("(a", "a ( without its ) (character 3)"), ("a)", "a ) without its ( (character 2)"),
            ("[a", "a [ without its ] (character 1)"), ("[a\\]", "a [ without its ] (character 1)"),
            ("[]", "a class of no characters; a ] in it is written \\] (character 1)"),
            ("[z-a]", "not a range of characters, lower one first (character 1)"),
            ("*a", "nothing is repeated by * (character 1)"),
            ("a**", "a repetition of a repetition; put a group around the first (character 3)"),
            ("a++", "possessive repetition is not known (character 3)"), ("^*", "an assertion cannot be repeated (character 2)"),
            ("(a)\\1", "references to groups cannot be searched for in bounded time (character 5)"),
            ("(?=a)", "of the groups that begin with (? only (?:…) is known, and (?i) at the very beginning (character 3)"),
            ("\\p{L}", "\\p is not known (character 2)"),
            ("a{3,2}", "the first number of a repetition is the higher one (character 2)"),
            ("a{1001}", "at most 1000 repetitions can be counted (character 2)"),
            ("a{2", "expected {m}, {m,} or {m,n} (character 2)"),
            ("a\\", "nothing behind a \\ (character 3)"),
            ("[[:alpha:]]", "a [ in a class is written \\[; named classes are not known (character 2)"),
            ("(a{100}){100}", "it has more than 1000 states, repetitions written out"),
        ])
    func refused(expression: String, reason: String) {
        let violation = #expect(throws: RegularExpression.Violation.self) { try RegularExpression(expression) }
        #expect(violation?.description == reason)
    }

    @Test("groups that are nested too deeply are refused without exhausting the stack")
    func nesting() {
        let deep = String(repeating: "(", count: 100_000)
        #expect(throws: RegularExpression.Violation.self) { try RegularExpression(deep) }
    }

    @Test("empty groups repeated a thousand times a thousand times compile at once")
    func emptyRepetitions() throws {
        let expression = try RegularExpression("((((((){1000}){1000}){1000}){1000}){1000}){1000}")
        #expect(expression.search(in: "") == .found)
    }

    @Test("patterns that are exponential for a backtracking matcher are fast")
    func catastrophic() throws {
        let text = String(repeating: "a", count: 20_000)
        #expect(try RegularExpression("^(a+)+$").search(in: text + "!") == .notFound)
        #expect(try RegularExpression("(a|aa)+$").search(in: text + "!") == .notFound)
        #expect(try RegularExpression("(.*.*.*=.*)x").search(in: text) == .notFound)
    }

    @Test("a search with too many steps is given up")
    func tooCostly() throws {
        let text = String(repeating: "a", count: 64 * 1024)
        let search = try RegularExpression("(a?){400}b").search(in: text)
        #expect(search == .tooCostly)
    }
}

@Suite("JSON paths")
struct JSONPathTests {
    @Test("a path has names and numbers, with dots and brackets")
    func steps() throws {
        let path = try JSONPath("$.checks[0]['disk space'][\"a\\\"b\"].status-2[-1]")
        #expect(
            path.steps == [
                .member("checks"), .element(0), .member("disk space"), .member("a\"b"), .member("status-2"), .element(-1),
            ])
    }

    @Test("$ alone is the whole document")
    func document() throws {
        #expect(try JSONPath("$").steps.isEmpty)
    }

    @Test(
        "an invalid path is refused with its position",
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
