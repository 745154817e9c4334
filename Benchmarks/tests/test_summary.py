import unittest

from figures import summary

ROWS = [
    ("LIMIT.TAKE ÷ INCRBY, 50 clients", "1/s", "2/s", "0.50", "≥ 0.4", "yes"),
    ("LOCK.ACQUIRE ÷ SET NX PX, 50 clients", "1/s", "3/s", "0.33", "≥ 0.6", "NO"),
    ("ready after start", "300 ms", "–", "300 ms", "≤ 200 ms", "NO"),
    ("resident memory when idle", "25 MB", "–", "25 MB", "≤ 32 MB", "yes"),
]


class SummaryTest(unittest.TestCase):
    def setUp(self) -> None:
        limits = [("one key: LIMIT.TAKE ÷ INCRBY, per second", "2/s", "1/s", "2.00", "≥ 0.8", "yes")]
        self.lines = summary.text([("sidecar", {"rows": ROWS}), ("limits", {"rows": limits})]).splitlines()

    def test_ratios_are_sorted_by_who_is_faster(self) -> None:
        self.assertIn("- **Ahead**: Pipelined takes reach 2.00 times `INCRBY`'s rate.", self.lines)
        self.assertIn("- **Behind**: Without pipelines, takes reach 0.50 times `INCRBY`'s rate.", self.lines)

    def test_the_first_pronoun_of_a_list_is_replaced_by_the_name(self) -> None:
        sentences = [("Takes reach {ratio}.", "1"), ("It is {it}: {ratio}.", "2"), ("Again, {it}: {ratio}.", "3")]
        self.assertEqual(
            summary.comparison("Ahead", sentences), "- **Ahead**: Takes reach 1. It is Interlock: 2. Again, it: 3."
        )

    def test_a_missed_target_is_not_listed_twice(self) -> None:
        rows = [("32 connections: requests ÷ Envoy's", "1/s", "2/s", "0.50", "≥ 1.1", "NO")]
        text = summary.text([("proxy", {"rows": rows})])
        self.assertIn("- **Behind**: none.", text)
        self.assertIn("is 0.50. We do not know why yet.", text)

    def test_missed_targets_have_their_reason_and_those_without_are_last(self) -> None:
        self.assertEqual(
            self.lines[-3:],
            [
                "- **Missed targets**: 2.",
                f"  - `LOCK.ACQUIRE` reaches 0.33 times `SET`'s rate. {summary.SCRIPT}",
                "  - In Sidecar, “ready after start” is 300 ms. We do not know why yet.",
            ],
        )

    def test_a_missing_figure_is_neither_ahead_nor_behind(self) -> None:
        rows = [("32 connections: requests ÷ Envoy's", "1/s", "missing", "missing", "≥ 1.1", "NO")]
        lines = summary.text([("proxy", {"rows": rows})]).splitlines()
        self.assertIn("- **Ahead**: none.", lines)
        self.assertIn("- **Behind**: none.", lines)


if __name__ == "__main__":
    unittest.main()
