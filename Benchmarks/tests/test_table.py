import io
import unittest
import unittest.mock

from figures.table import Table


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

    def test_what_is_missing_is_a_row_that_breaks_no_bound(self) -> None:
        table = Table()
        table.missing("etcd", "there is none")
        self.assertEqual(table.rows[0][:4], ("etcd", "–", "missing: there is none", "missing"))
        self.assertTrue(table.holds)


if __name__ == "__main__":
    unittest.main()
