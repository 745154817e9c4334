"""Tests that every known bug has its place in the specifications."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

import check

sys.path.append(str(check.SPECS.parent / "Tests" / "Mutation"))
import scripts
import seeded
from check_traces import UNIT_TESTED
from traces import test_breakers, test_groups, test_locks, test_quorums


class BugTests(unittest.TestCase):
    """Compares bugs.tsv with the lists of known bugs."""

    def test_every_bug_in_swift_is_listed(self) -> None:
        listed = dict(line.split("\t") for line in Path(check.SPECS, "bugs.tsv").read_text().splitlines())
        self.assertEqual(sorted(listed), sorted(bug.name for bug in seeded.BUGS))
        for name, answer in listed.items():
            if answer.endswith("."):
                continue
            with self.subTest(name):
                self.assertTrue(check.expectation(Path(check.SPECS, f"{answer}.cfg")).startswith("violates "))

    def test_the_calls_of_rare_bugs_are_illegal(self) -> None:
        self.assertLessEqual(set(UNIT_TESTED), {bug.name for bug in scripts.BUGS})
        wrong = {
            "traces/test_breakers.py": set(test_breakers.illegal(test_breakers.legal())),
            "traces/test_groups.py": test_groups.wrong(),
            "traces/test_locks.py": test_locks.wrong(),
            "traces/test_quorums.py": set(test_quorums.ILLEGAL),
        }
        for test in UNIT_TESTED.values():
            name, file = test.removeprefix("`").split("` in ")
            self.assertIn(name, wrong[file])
