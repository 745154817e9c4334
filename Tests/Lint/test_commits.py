"""Tests the check of commit messages."""

import unittest

import commits


class CommitTests(unittest.TestCase):
    def test_a_good_message_passes(self) -> None:
        self.assertEqual(
            list(commits.problems("proxy: retry streams refused by GOAWAY\n\nThey were never processed.")), []
        )

    def test_a_subject_without_area_or_imperative_fails(self) -> None:
        self.assertEqual(list(commits.problems("Retry\n\nWhy.")), ["the subject is not `area: imperative summary`"])
        self.assertEqual(
            list(commits.problems("proxy: retried streams\n\nWhy.")),
            ['the summary opens with "retried"; write the imperative'],
        )

    def test_a_long_subject_and_a_missing_body_fail(self) -> None:
        self.assertEqual(
            list(commits.problems("docs: " + "x" * 70)),
            ["the subject has 76 columns, more than 72", "there is no body, after a blank line, that says why"],
        )


if __name__ == "__main__":
    unittest.main()
