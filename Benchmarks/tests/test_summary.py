import unittest

from figures import summary

ROWS = [
    ("LIMIT.TAKE ÷ INCRBY, 50 clients", "1/s", "2/s", "0.50", "≥ 0.75", "NO"),
    ("LOCK.ACQUIRE ÷ SET NX PX, 50 clients", "1/s", "3/s", "0.33", "≥ 0.6", "NO"),
    ("resident memory when idle", "25 MB", "–", "25 MB", "≤ 32 MB", "yes"),
]


class SummaryTest(unittest.TestCase):
    def setUp(self) -> None:
        limits = [("one key: LIMIT.TAKE ÷ INCRBY, per second", "2/s", "1/s", "2.00", "≥ 0.8", "yes")]
        self.lines = summary.text([("sidecar", {"rows": ROWS}), ("limits", {"rows": limits})]).splitlines()

    def test_ratios_are_sorted_by_who_is_faster(self) -> None:
        self.assertIn("- **Ahead**: pipelined takes ÷ `INCRBY` 2.00.", self.lines)
        self.assertIn("- **Behind**: takes without pipelines ÷ `INCRBY` 0.50.", self.lines)

    def test_missed_targets_have_their_reason_and_those_without_are_last(self) -> None:
        self.assertEqual(
            self.lines[-3:],
            [
                "- **Missed targets**: 2.",
                f"  - `LOCK.ACQUIRE` ÷ `SET` 0.33: {summary.SCRIPT}.",
                "  - LIMIT.TAKE ÷ INCRBY, 50 clients (sidecar) 0.50: not explained yet.",
            ],
        )

    def test_a_missing_figure_is_neither_ahead_nor_behind(self) -> None:
        rows = [("32 connections: requests ÷ Envoy's", "1/s", "missing", "missing", "≥ 1.1", "NO")]
        lines = summary.text([("proxy", {"rows": rows})]).splitlines()
        self.assertIn("- **Ahead**: none.", lines)
        self.assertIn("- **Behind**: none.", lines)


if __name__ == "__main__":
    unittest.main()
