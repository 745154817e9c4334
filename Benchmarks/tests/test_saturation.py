import unittest

from figures import saturation

PRINTED = """
requests: 9095 total, 10095 started, 9095 done, 9000 succeeded, 95 failed, 5 errored, 2 timeout
status codes: 9000 2xx, 0 3xx, 10 4xx, 80 5xx
"""


class SaturationTest(unittest.TestCase):
    def test_failed_requests_are_split_into_refused_and_broken(self) -> None:
        self.assertEqual(saturation.parse_counts(PRINTED), {"requests": 9000, "refused": 90, "broken": 5})


if __name__ == "__main__":
    unittest.main()
