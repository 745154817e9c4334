import contextlib
import io
import unittest

from figures.table import Table
from peers import proxy
from rig.web import Played


def side(*rounds: tuple[float, float]) -> proxy.Side:
    side = proxy.Side(0, "/")
    side.paced = [Played(p50, p99, 0, 0, 0) for p50, p99 in rounds]
    return side


def report(**sides: proxy.Side) -> Table:
    table = Table()
    with contextlib.redirect_stdout(io.StringIO()):
        proxy.report_paced(table, {name: sides[key] for key, name in NAMES.items() if key in sides})
    return table


NAMES = {"ours": proxy.INTERLOCK, "theirs": proxy.ENVOY, "straight": proxy.STRAIGHT}


class PacedTest(unittest.TestCase):
    def test_each_side_is_the_first_one_in_turn(self) -> None:
        sides = [(name, proxy.Side(0, "/")) for name in "abc"]
        orders = ["".join(name for name, _ in proxy.rotated(sides, number)) for number in range(3)]
        self.assertEqual(orders, ["abc", "bca", "cab"])

    def test_what_is_added_is_beyond_the_same_rounds_straight_run(self) -> None:
        # The machine is slower in the second round.
        table = report(
            ours=side((150, 500), (300, 900)), theirs=side((300, 500), (500, 1000)), straight=side((100, 1), (200, 1))
        )
        self.assertEqual(table.rows[0][1:5], ("75 µs", "250 µs; direct 150 µs", "0.29", "≤ 1.0"))
        self.assertEqual(table.rows[1][3], "0.95")
        self.assertTrue(table.holds)

    def test_without_envoy_the_bounds_do_not_hold(self) -> None:
        table = report(ours=side((150, 500)), straight=side((100, 200)))
        self.assertEqual([row[-1] for row in table.rows[:2]], ["NO", "NO"])


if __name__ == "__main__":
    unittest.main()
