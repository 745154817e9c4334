"""Tests the comment check with a few lines."""

import unittest

import comments


class CommentTests(unittest.TestCase):
    def found(self, *lines: str) -> list[tuple[int, str]]:
        return list(comments.problems("\n".join(lines)))

    def test_a_doc_comment_opens_with_its_subject(self) -> None:
        self.assertEqual(self.found("/// The number of waiters.", "/// It is never negative.", "var count: Int"), [])
        self.assertEqual(
            self.found("    /// What waits here.", "    var count: Int"),
            [(1, 'the comment opens with "What"; start with the subject')],
        )

    def test_each_field_opens_with_its_subject(self) -> None:
        text = ["/// Waits.", "/// - Parameter limit: the limit.", "/// - Returns: Whoever was served."]
        self.assertEqual(
            self.found(*text, "func wait(limit: Int)"),
            [(3, 'the comment opens with "Whoever"; start with the subject')],
        )

    def test_longer_words_with_the_same_beginning_are_allowed(self) -> None:
        self.assertEqual(self.found("/// Itself.", "/// - Returns: Offers.", "// It is not a doc comment."), [])

    def test_a_long_line_is_found(self) -> None:
        self.assertEqual(self.found("/// Word " + "word " * 22), [])
        self.assertEqual(self.found("// Word " + "word " * 29), [(1, "the line has 153 columns, more than 120")])
        self.assertEqual(self.found("/// https://example.com/" + "a" * 120), [])

    def test_a_comment_starts_with_a_capital_letter(self) -> None:
        self.assertEqual(self.found("/// The lock's name,", "/// as given.", "// 5 s at most.", "// `wait` is 0."), [])
        self.assertEqual(self.found("// snippet: hello", "hello()", "// end", "", "// libfaketime truncates it."), [])
        for line in ("/// the Redis clock jumps.", "// rejects a write."):
            self.assertEqual(self.found(line, "let x = 0"), [(1, "the comment starts with a lowercase word")])

    def test_each_parameter_belongs_to_the_declaration(self) -> None:
        text = ["/// - Parameter wait: the maximum wait.", "@discardableResult"]
        self.assertEqual(self.found(*text, "func take(", "    for wait: Int", ") -> Int {"), [])
        self.assertEqual(self.found(*text, "func take(wait milliseconds: Int) -> Int {"), [])
        self.assertEqual(
            self.found(*text, "func take(delay: Int) -> Int {", "    call(wait: delay)"),
            [(1, "the declaration has no parameter `wait`")],
        )

    def test_each_listed_parameter_belongs_to_the_declaration(self) -> None:
        text = [
            "/// - Parameters:",
            "///   - name: the name.",
            "///   - ttl: the TTL,",
            "///     in ms.",
            "/// - Returns: A.",
        ]
        self.assertEqual(self.found(*text, "init(_ name: String, ttl: Int) {"), [])
        self.assertEqual(self.found(*text, "init(_ name: String) {"), [(3, "the declaration has no parameter `ttl`")])

    def test_a_member_exists(self) -> None:
        members = comments.Members(
            ["struct Lease {\n    let ttl: Int\n    enum End {\n        case lost, lapsed\n    }\n}"]
        )
        text = "// `Lease.ttl`, `Lease.End.lapsed`, `Other.anything` and `Lease.swift`"
        self.assertEqual(list(members.missing(text)), [])
        self.assertEqual(list(members.missing("/// `Lease.age`")), [(1, "`Lease` has no member `age`")])
        self.assertEqual(list(members.missing("use `Lease.age`")), [])
        self.assertEqual(list(members.missing("`Lease.age`", is_prose=True)), [(1, "`Lease` has no member `age`")])

    def test_a_name_in_the_architecture_exists(self) -> None:
        members = comments.Members(["struct Lease {\n    let fullTTL: Int\n}"])
        paths = ["Sources/Runtime/Keys.swift"]
        self.assertEqual(list(members.unknown("`Lease`, `fullTTL`, `Runtime`, `Keys`, `WAIT`, `ttl`", paths)), [])
        self.assertEqual(list(members.unknown("\n`hasRoom`", paths)), [(2, "`hasRoom` does not exist")])


if __name__ == "__main__":
    unittest.main()
