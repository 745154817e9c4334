import pathlib
import unittest

from abuses.quotas import field, varint
from abuses.target import SERVICES, TAKEN, Setup, configuration
from figures import abuse


class CasesTest(unittest.TestCase):
    def test_every_case_and_trial_has_a_unique_name_and_label(self) -> None:
        all_cases = [(case.name, case.label) for case in abuse.CASES] + [(one.name, one.label) for one in abuse.TRIALS]
        for column in zip(*all_cases, strict=True):
            self.assertEqual(len(set(column)), len(column), sorted(column))

    def test_the_bound_is_five_times_the_earlier_p99_between_5_and_20_ms(self) -> None:
        self.assertEqual([abuse.bound(before) for before in (0.3, 2, 10)], [5, 10, 20])


class ConfigurationTest(unittest.TestCase):
    def test_all_services_have_the_limit_and_the_witness_has_a_separate_one(self) -> None:
        text = configuration(Setup(), pathlib.Path("/tmp"), 1, 2, 3, limit=7)
        self.assertEqual(text.count("limit: 7,"), SERVICES)
        self.assertIn(f"  {TAKEN}: ", text)


class ProtobufTest(unittest.TestCase):
    def test_lengths_above_127_take_two_bytes(self) -> None:
        self.assertEqual(varint(300), b"\xac\x02")
        self.assertEqual(field(1, b"ab"), b"\x0a\x02ab")


if __name__ == "__main__":
    unittest.main()
