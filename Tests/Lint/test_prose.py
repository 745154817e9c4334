"""Tests the prose check with a few lines."""

import unittest

import prose


class ProseTests(unittest.TestCase):
    def test_code_tables_comments_and_urls_are_not_prose(self) -> None:
        text = "# A `door`\n```sh\ndoor\n```\n| door |\n<!-- door\ndoor -->\n[a link](door.md)\nText."
        lines = prose.prose_of_markdown(text)
        self.assertEqual(len(lines), len(text.splitlines()))
        self.assertEqual([line for line in lines if "door" in line], [])
        self.assertEqual(lines[-1], "Text.")

    def test_comments_of_code_are_prose(self) -> None:
        lines = prose.prose_of_code("/// One `door`.\nlet door = 1\n    // Two.", "//")
        self.assertEqual(lines, ["One N.", "", "Two."])

    def test_strings_are_checked_without_interpolations_and_single_words(self) -> None:
        self.assertEqual(prose.strings_of_code(r'log("a \(door) b", "c")'), ["a N b"])

    def test_a_banned_phrase_is_found_with_its_advice(self) -> None:
        found = [problem for _, problem in prose.phrases(["", "The client is told."], prose.banned())]
        self.assertEqual(found, ['"is told": write "gets", "receives" or "is notified"'])

    def test_lines_and_paragraphs_are_short(self) -> None:
        self.assertEqual(list(prose.shape("word " * 33)), [(1, "the line has 165 columns, more than 160")])
        self.assertEqual(list(prose.shape("a\n" * 6)), [(6, "the paragraph has more than 5 lines")])
        self.assertEqual(list(prose.shape("- a\n" * 6 + "\n" + "a\n" * 5)), [])
        self.assertEqual(list(prose.shape("| " + "word " * 40 + "|\n`" + "code" * 50 + "`")), [])


if __name__ == "__main__":
    unittest.main()
