import unittest

from rig.bystander import Figures, figures


class FiguresTest(unittest.TestCase):
    def test_p99_of_100_values_is_the_highest(self) -> None:
        self.assertEqual(figures(range(100, 0, -1)), Figures(100, 50.5, 100, 100))

    def test_no_answer_is_reported(self) -> None:
        self.assertEqual(figures([]).text, "no answer")

    def test_times_are_microseconds(self) -> None:
        self.assertEqual(figures([1500.4]).text, "1,500/1,500")


if __name__ == "__main__":
    unittest.main()
