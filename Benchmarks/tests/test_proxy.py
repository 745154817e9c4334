import contextlib
import io
import unittest

from figures.table import Table
from peers import proxy
from rig.web import LoopResult


def side(*rounds: tuple[float, float]) -> proxy.Side:
    side = proxy.Side(0, "/")
    side.paced = [LoopResult(p50, p99, 0, 0, 0) for p50, p99 in rounds]
    return side


def report(**sides: proxy.Side) -> Table:
    table = Table()
    with contextlib.redirect_stdout(io.StringIO()):
        proxy.report_paced(table, {name: sides[key] for key, name in NAMES.items() if key in sides})
    return table


NAMES = {"interlock": proxy.INTERLOCK, "peer": proxy.ENVOY, "direct": proxy.DIRECT}


class PacedTest(unittest.TestCase):
    def test_the_first_side_rotates(self) -> None:
        sides = [(name, proxy.Side(0, "/")) for name in "abc"]
        orders = ["".join(name for name, _ in proxy.rotated(sides, number)) for number in range(3)]
        self.assertEqual(orders, ["abc", "bca", "cab"])

    def test_the_added_latency_is_relative_to_the_direct_run_of_the_same_round(self) -> None:
        # The machine is slower in the second round.
        table = report(
            interlock=side((150, 500), (300, 900)), peer=side((300, 500), (500, 1000)), direct=side((100, 1), (200, 1))
        )
        self.assertEqual(table.rows[0][1:5], ("75 µs", "250 µs; direct 150 µs", "0.29", "≤ 1.0"))
        self.assertEqual(table.rows[1][3], "0.95")
        self.assertTrue(table.holds)

    def test_without_envoy_the_bounds_do_not_hold(self) -> None:
        table = report(interlock=side((150, 500)), direct=side((100, 200)))
        self.assertEqual([row[-1] for row in table.rows[:2]], ["NO", "NO"])


if __name__ == "__main__":
    unittest.main()
