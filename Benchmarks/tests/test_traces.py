import itertools
import unittest

from figures.oracles import Fixed, Sliding, maximum_within
from rig.traces import MARGIN, SECOND, adversary, poisson


class TracesTest(unittest.TestCase):
    def test_independent_calls_have_the_given_rate(self) -> None:
        trace = poisson(1000, 10 * SECOND, 4, seed="a")
        self.assertAlmostEqual(len(trace.calls), 10_000, delta=400)
        self.assertEqual({call.sidecar for call in trace.calls}, {0, 1, 2, 3})

    def test_a_seed_determines_the_trace(self) -> None:
        self.assertEqual(poisson(100, SECOND, 4, seed="a"), poisson(100, SECOND, 4, seed="a"))

    def test_each_call_is_at_one_sidecar(self) -> None:
        trace = adversary(100, SECOND, SECOND, 4)
        times = [trace.times(sidecar) for sidecar in range(4)]
        self.assertEqual(sorted(itertools.chain(*times)), sorted(call.time for call in trace.calls))

    def test_the_adversary_gets_twice_a_fixed_limit_and_once_a_sliding_one(self) -> None:
        trace = adversary(300, SECOND, SECOND, 4)
        times = sorted(call.time for call in trace.calls)
        for oracle, maximum in ((Fixed(100, SECOND), 199), (Sliding(100, SECOND), 100)):
            grants = [(at, 1) for at in times if oracle.grants(at)]
            self.assertEqual(maximum_within(grants, SECOND, closed=False), maximum)

    def test_the_adversary_has_the_given_rate(self) -> None:
        for rate in (50, 100, 1000):
            trace = adversary(rate, SECOND, 10 * SECOND, 4)
            self.assertAlmostEqual(len(trace.calls) / (trace.length / SECOND), rate, delta=rate * 0.02)

    def test_repeated_calls_end_a_window_before_the_next_turn(self) -> None:
        trace = adversary(100, SECOND, SECOND, 4)
        self.assertLessEqual(max(call.repeated_until for call in trace.calls) + SECOND + MARGIN, trace.length)
        repeated = [call for call in trace.calls if call.repeated_until]
        self.assertEqual(len(repeated), 2 * 4)
        self.assertEqual({call.sidecar for call in repeated}, {0, 1, 2, 3})


if __name__ == "__main__":
    unittest.main()
