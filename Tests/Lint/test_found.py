"""Tests the list of faults: what it may name, and the pages that are made from it."""

import unittest

import found

FAULT = found.Fault("locks", "two holders", "reading", "Two clients held a lock.", "0123abcd", "LockTests.oneHolder")
NAMES = found.Names(
    commits=frozenset({"0123abcd"}),
    tests=frozenset({"LockTests.oneHolder"}),
    configurations=frozenset({"Lock-small"}),
    bugs=frozenset({"no-fence"}),
    targets=frozenset({"test-interop"}),
    files=frozenset({"docker/check"}),
)


class FoundTests(unittest.TestCase):
    def problems(self, **changes: str) -> list[str]:
        return list(found.problems([FAULT._replace(**changes)], NAMES))

    def test_names_that_exist_are_accepted(self) -> None:
        for again in ("LockTests.oneHolder", "Lock-small, no-fence", "--seed 7", "make test-interop", "docker/check"):
            self.assertEqual(self.problems(again=again), [])
        self.assertEqual(self.problems(fix="open", again="none"), [])

    def test_a_name_that_is_gone_is_reported(self) -> None:
        for again in (
            "LockTests.gone",
            "Lock-large",
            "--seed x",
            "make gone",
            "docker/gone",
            "LockTests.oneHolder, gone",
        ):
            self.assertIn("does not exist", self.problems(again=again)[0])

    def test_a_commit_that_is_gone_is_reported(self) -> None:
        self.assertIn("neither", self.problems(fix="ffffffff")[0])
        self.assertIn("neither", self.problems(fix="0123")[0])

    def test_a_word_outside_the_lists_is_reported(self) -> None:
        self.assertIn('"lock" is no area', self.problems(area="lock")[0])
        self.assertIn('"bug" is no kind', self.problems(kind="bug")[0])
        self.assertIn('"luck" is no way of finding', self.problems(found_by="luck")[0])

    def test_a_story_is_short_and_a_sentence(self) -> None:
        self.assertIn("21 words", self.problems(story="word " * 20 + "word.")[0])
        self.assertIn("a sentence", self.problems(story="Two clients held a lock")[0])

    def test_a_fault_is_listed_once(self) -> None:
        self.assertIn("listed twice", next(found.problems([FAULT, FAULT], NAMES)))

    def test_tests_are_named_after_their_suite(self) -> None:
        source = """@Suite("Locks", .timeLimit(.minutes(1)))
struct LockTests {
    @Test("A lock has one holder", arguments: [1, 2])
    func oneHolder(count: Int) async throws {}
    func helper() {}
    @Test func released() {}
}
private extension Stage {
    func acquire() {}
}
"""
        self.assertEqual(list(found.tests_of(source)), ["LockTests.oneHolder", "LockTests.released"])

    def test_a_line_without_all_columns_is_refused(self) -> None:
        head = "\t".join(found.COLUMNS)
        self.assertEqual(found.parsed(head + "\n" + "\t".join((*FAULT[:3], *FAULT[3:])) + "\n"), [FAULT])
        with self.assertRaisesRegex(ValueError, "found.tsv:2"):
            found.parsed(head + "\nlocks\ttwo holders\n")

    def test_the_index_counts_and_the_listing_puts_open_faults_last(self) -> None:
        unsolved = FAULT._replace(story="A lock was lost.", fix="open", again="none")
        pages = {path.stem: text for path, text in found.pages([unsolved, FAULT]).items()}
        self.assertIn("the 2 faults recorded in Interlock's history, of which 1 are open", pages["found"])
        self.assertIn("|two holders|2|2|", pages["found"])
        self.assertIn("|[locks](found-locks.md#locks)|2|1|", pages["found"])
        self.assertLess(pages["found-locks"].index(FAULT.story), pages["found-locks"].index(unsolved.story))


if __name__ == "__main__":
    unittest.main()
