import unittest

from figures.oracles import Fixed, Sliding, Smooth, granted, maximum_within
from rig.traces import SECOND

MILLISECOND = SECOND // 1000


class OraclesTest(unittest.TestCase):
    def test_a_fixed_window_begins_with_its_first_call_and_ends_a_window_later(self) -> None:
        oracle = Fixed(2, SECOND)
        answers = [oracle.grants(at * MILLISECOND) for at in (300, 900, 1299, 1300, 1301, 2299)]
        self.assertEqual(answers, [True, True, False, True, True, False])

    def test_an_entry_of_a_sliding_log_counts_until_just_after_a_window(self) -> None:
        oracle = Sliding(1, SECOND)
        self.assertEqual([oracle.grants(at) for at in (5, SECOND + 5, SECOND + 6)], [True, False, True])

    def test_a_smooth_limit_grants_a_burst_and_then_one_for_each_spacing(self) -> None:
        oracle = Smooth(100, SECOND, 2)
        times = [SECOND + at * MILLISECOND for at in (0, 0, 0, 0, 9, 10, 10, 1000, 1000, 1000, 1000)]
        self.assertEqual(
            [oracle.grants(at) for at in times], [True, True, True, False, False, True, False, True, True, True, False]
        )

    def test_a_smooth_limit_loses_no_fraction_of_a_spacing(self) -> None:
        # One each 3 1/3, and one early.
        self.assertEqual(granted(Smooth(3, 10, 1), range(300)), 91)

    def test_calls_are_decided_in_the_order_of_their_times(self) -> None:
        self.assertEqual(granted(Fixed(1, 10), [25, 0, 5, 12]), 3)

    def test_a_closed_window_includes_both_its_ends(self) -> None:
        grants = [(0, 2), (10, 3), (20, 1)]
        self.assertEqual([maximum_within(grants, 10, closed) for closed in (True, False)], [5, 3])

    def test_the_maximum_without_grants_is_zero(self) -> None:
        self.assertEqual(maximum_within([], 10, closed=True), 0)


if __name__ == "__main__":
    unittest.main()
