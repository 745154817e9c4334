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
            self.found(*text, "func wait()"), [(3, 'the comment opens with "Whoever"; start with the subject')]
        )

    def test_longer_words_with_the_same_beginning_are_allowed(self) -> None:
        self.assertEqual(self.found("/// Itself.", "/// - Returns: Offers.", "// It is not a doc comment."), [])

    def test_a_long_line_is_found(self) -> None:
        self.assertEqual(self.found("/// " + "word " * 23), [])
        self.assertEqual(self.found("// " + "word " * 30), [(1, "the line has 153 columns, more than 120")])
        self.assertEqual(self.found("/// https://example.com/" + "a" * 120), [])


if __name__ == "__main__":
    unittest.main()
