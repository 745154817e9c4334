import pathlib
import unittest

from abuses.quotas import field, varint
from abuses.target import SERVICES, TAKEN, World, configuration
from figures import abuse


class CasesTest(unittest.TestCase):
    def test_every_case_and_trial_has_a_name_and_words_of_its_own(self) -> None:
        everything = [(case.name, case.what) for case in abuse.CASES] + [(one.name, one.what) for one in abuse.TRIALS]
        for column in zip(*everything, strict=True):
            self.assertEqual(len(set(column)), len(column), sorted(column))

    def test_a_bound_is_five_times_before_or_five_milliseconds_and_twenty_at_most(self) -> None:
        self.assertEqual([abuse.bound(before) for before in (0.3, 2, 10)], [5, 10, 20])


class ConfigurationTest(unittest.TestCase):
    def test_all_services_have_the_limit_and_the_witness_has_its_own(self) -> None:
        text = configuration(World(), pathlib.Path("/tmp"), 1, 2, 3, limit=7)
        self.assertEqual(text.count("limit: 7,"), SERVICES)
        self.assertIn(f"  {TAKEN}: ", text)


class ProtobufTest(unittest.TestCase):
    def test_lengths_above_127_take_two_bytes(self) -> None:
        self.assertEqual(varint(300), b"\xac\x02")
        self.assertEqual(field(1, b"ab"), b"\x0a\x02ab")


if __name__ == "__main__":
    unittest.main()
