import unittest

from rig.witness import Latencies, Turn, latencies


class LatenciesTest(unittest.TestCase):
    def test_only_turns_within_the_span_count(self) -> None:
        turns = [Turn(at, at / 10) for at in range(200)]
        self.assertEqual(latencies(turns, 100, 200), Latencies(100, 14.95, 19.9, 19.9))

    def test_p99_is_infinite_without_answers(self) -> None:
        self.assertEqual(latencies([], 0, 1).p99, float("inf"))


if __name__ == "__main__":
    unittest.main()
