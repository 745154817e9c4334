import io
import unittest
import unittest.mock

from figures.table import Table, figures


class TableTest(unittest.TestCase):
    def setUp(self) -> None:
        # A table prints its rows.
        quiet = unittest.mock.patch("sys.stdout", io.StringIO())
        quiet.start()
        self.addCleanup(quiet.stop)

    def test_a_ratio_is_the_median_of_the_rounds(self) -> None:
        table = Table()
        table.ratio("cycles", [10, 40, 30], [20, 10, 30])
        self.assertEqual(table.rows, [("cycles", "30/s", "20/s", "1.00", "–", "–")])

    def test_a_ratio_below_its_bound_does_not_hold(self) -> None:
        table = Table()
        table.ratio("cycles", [10], [20], 1)
        self.assertFalse(table.holds)

    def test_a_missing_figure_is_a_row_that_misses_no_bound(self) -> None:
        table = Table()
        table.missing("etcd", "there is none")
        self.assertEqual(table.rows[0][:4], ("etcd", "–", "missing: there is none", "missing"))
        self.assertTrue(table.holds)

    def test_a_missed_target_is_marked(self) -> None:
        table = Table()
        table.ratio("cycles", [10], [20], 1)
        self.assertEqual(
            table.markdown(),
            "|measured|Interlock|baseline|result|target|\n|---|---|---|---|---|\n|cycles|10/s|20/s|0.50|≥1 **missed**|",
        )

    def test_the_figures_of_a_group_are_below_its_name(self) -> None:
        rows = [(f"names: {name}", "1", "2", "0.50", "–", "–") for name in ("few", "many")]
        self.assertEqual(figures(rows).splitlines()[2:], ["|**names**||||", "|few|1|2|0.50|", "|many|1|2|0.50|"])

    def test_a_target_of_a_whole_group_is_beside_its_name(self) -> None:
        rows = [("p99: few", "1", "2", "0.5", "≤ 5", "yes"), ("p99: many", "9", "1", "9.0", "≤ 5", "NO")]
        lines = ["|**p99**||||≤5|", "|few|1|2|0.5||", "|many|9|1|9.0|**missed**|"]
        self.assertEqual(figures(rows).splitlines()[2:], lines)

    def test_repeated_results_and_empty_columns_are_omitted(self) -> None:
        rows = [("late, p50/p99", "1/9 ms", "–", "9 ms", "–", "–"), ("errors", "0 of 9", "–", "0", "–", "–")]
        self.assertEqual(figures(rows).splitlines()[2:], ["|late, p50/p99|1/9 ms|", "|errors|0 of 9|"])

    def test_a_ratio_that_happens_to_equal_a_figure_is_shown(self) -> None:
        self.assertIn("|0.5 ms|1 ms|0.5|", figures([("p50 ÷ the peer's", "0.5 ms", "1 ms", "0.5", "–", "–")]))


if __name__ == "__main__":
    unittest.main()
