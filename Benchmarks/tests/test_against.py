import contextlib
import io
import itertools
import math
import pathlib
import sys
import tempfile
import unittest
import unittest.mock
from collections.abc import Sequence
from typing import Any

import run
from figures import against

SIDES = (against.Side("old", pathlib.Path("/before/interlock")), against.Side("new", pathlib.Path("/now/interlock")))


#: A placeholder for the servers, which these tests do not start.
RIG = unittest.mock.Mock()


def samples(ratios: Sequence[float], falls: bool = False) -> against.Samples:
    figure = against.Samples(falls)
    figure.pairs = [(1000, 1000 * ratio) for ratio in ratios]
    return figure


def around(ratio: float, spread: float, count: int) -> list[float]:
    """Returns ratios whose logarithms are alternately `spread` above and below the logarithm of `ratio`."""
    return [ratio * math.exp(spread if index % 2 else -spread) for index in range(count)]


class FixedFigure:
    """A figure with these values, pair by pair. The last pair repeats."""

    def __init__(self, *pairs: tuple[float, float]) -> None:
        self.values = {
            name: itertools.chain(values, itertools.repeat(values[-1]))
            for name, values in zip(("old", "new"), zip(*pairs, strict=True), strict=True)
        }
        self.sides: list[str] = []

    def measure(self, rig: object, side: against.Side, scale: int) -> list[float]:
        self.sides.append(side.name)
        value = next(self.values[side.name])
        return [value - 1, value, value + 10]


def compare(figure: FixedFigure, maximum: int = against.MAX_PAIRS, **options: Any) -> tuple[against.Samples, str]:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = against.compare(against.Figure("calls", figure.measure, **options), RIG, SIDES, 100, maximum)
    return result, printed.getvalue()


class IntervalTest(unittest.TestCase):
    def test_a_fortieth_of_the_distribution_is_above_each_quantile(self) -> None:
        for freedom, quantile in enumerate(against.QUANTILES, start=1):
            self.assertAlmostEqual(above(quantile, freedom), 0.025, places=4, msg=freedom)

    def test_there_is_a_quantile_for_every_number_of_pairs(self) -> None:
        self.assertEqual(len(against.QUANTILES), against.MAX_PAIRS - 1)

    def test_the_ratio_is_the_geometric_mean_of_the_pairs(self) -> None:
        self.assertAlmostEqual(samples([0.5, 2]).ratio, 1)

    def test_the_interval_is_that_of_the_mean_of_logarithms(self) -> None:
        low, high = samples([math.exp(log) for log in (-0.02, -0.01, 0, 0.01, 0.02)]).interval
        # Their standard deviation is 0.0158114, that of the mean 0.0070711.
        self.assertAlmostEqual(math.log(high), 2.776 * 0.0070711, places=6)
        self.assertAlmostEqual(math.log(low), -math.log(high))

    def test_the_interval_of_one_pair_is_unlimited(self) -> None:
        self.assertEqual(samples([0.5]).interval, (0, math.inf))

    def test_a_latency_that_falls_is_better(self) -> None:
        self.assertAlmostEqual(samples([0.5] * 5, falls=True).ratio, 2)
        self.assertEqual(samples([1.1] * 5, falls=True).verdict, against.WORSE)


class VerdictTest(unittest.TestCase):
    def test_an_interval_wholly_below_the_bound_is_worse(self) -> None:
        self.assertEqual(samples(around(0.9, 0.01, 6)).verdict, against.WORSE)

    def test_an_interval_wholly_above_the_bound_is_not_worse(self) -> None:
        self.assertEqual(samples(around(1, 0.01, 6)).verdict, against.NOT_WORSE)

    def test_a_mean_below_the_bound_whose_interval_reaches_above_it_is_undecided(self) -> None:
        wide = samples(around(0.9, 0.2, 6))
        self.assertLess(wide.ratio, against.BOUND)
        self.assertEqual(wide.verdict, against.OPEN)

    def test_less_than_three_percent_slower_is_not_worse(self) -> None:
        self.assertEqual(samples(around(0.98, 0.002, 6)).verdict, against.NOT_WORSE)

    def test_four_pairs_decide_nothing(self) -> None:
        self.assertEqual(samples([0.5] * 4).verdict, against.OPEN)
        self.assertEqual(samples([0.5] * 5).verdict, against.WORSE)


class CompareTest(unittest.TestCase):
    def test_stops_as_soon_as_the_verdict_is_known(self) -> None:
        result, _ = compare(FixedFigure((1000, 800)))
        self.assertEqual((len(result.pairs), result.verdict), (5, against.WORSE))

    def test_continues_while_the_interval_contains_the_bound(self) -> None:
        result, _ = compare(FixedFigure((1000, 1000), (1000, 700), (1000, 1000), (1000, 700), (1000, 1100)))
        self.assertGreater(len(result.pairs), 5)
        self.assertEqual(first(result, 5).verdict, against.OPEN)
        self.assertNotEqual(result.verdict, against.OPEN)

    def test_ends_undecided_with_the_maximum_number_of_pairs(self) -> None:
        result, _ = compare(FixedFigure(*[(1000, 700), (1000, 1300)] * 15))
        self.assertEqual((len(result.pairs), result.verdict), (30, against.OPEN))

    def test_the_maximum_number_of_pairs_can_be_lower(self) -> None:
        result, _ = compare(FixedFigure(*[(1000, 700), (1000, 1300)] * 15), maximum=6)
        self.assertEqual(len(result.pairs), 6)

    def test_no_pair_is_left_out(self) -> None:
        pairs = [(1000, 1), (1000, 1000), (1000, 1001), (1000, 1002), (1000, 1003)]
        result, _ = compare(FixedFigure(*pairs), maximum=5)
        self.assertEqual(result.pairs, pairs)

    def test_the_side_that_goes_first_alternates(self) -> None:
        figure = FixedFigure((1000, 1000))
        compare(figure)
        self.assertEqual(figure.sides, ["old", "new", "new", "old"] * 2 + ["old", "new"])

    def test_all_runs_of_both_sides_are_printed(self) -> None:
        _, printed = compare(FixedFigure((1000, 2000)))
        self.assertIn("pair 1: old 1,000/s of 999 1,000 1,010, new 2,000/s of 1,999 2,000 2,010; ratio 2.000", printed)

    def test_a_failed_run_names_its_side_and_fails_only_its_figure(self) -> None:
        def breaks(rig: object, side: against.Side, scale: int) -> None:
            sys.exit(f"no answer from {side.name}")

        with contextlib.redirect_stdout(io.StringIO()):
            row = against.measure(against.Figure("calls", breaks), RIG, SIDES, 100, 30)
        self.assertEqual((row[-1], row[4]), (against.FAILED, "the old side of pair 1: no answer from old"))

    def test_an_interrupt_ends_the_run_and_fails_no_figure(self) -> None:
        def interrupted(rig: object, side: against.Side, scale: int) -> None:
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            against.measure(against.Figure("calls", interrupted), RIG, SIDES, 100, 30)

    def test_a_library_without_its_generator_is_missing(self) -> None:
        row = against.measure(against.Figure("library", unittest.mock.Mock(), of_library=True), RIG, SIDES, 100, 30)
        self.assertEqual((row[-1], row[4]), (against.MISSING, "there is no /before/InterlockBenchmarks"))


class ExitTest(unittest.TestCase):
    def test_only_a_worse_figure_exits_with_one(self) -> None:
        self.assertEqual(code(against.NOT_WORSE, against.WORSE, against.FAILED), 1)
        self.assertEqual(code(against.NOT_WORSE, against.OPEN, against.MISSING), 0)

    def test_a_figure_that_failed_is_neither_success_nor_worse(self) -> None:
        self.assertEqual(code(against.NOT_WORSE, against.FAILED), 70)


class CommandLineTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.current = self.program("current", "#!/bin/sh\necho 0.1.0\n")
        # A wrong command line must start nothing.
        for label, value in (("BINARY", self.current), ("Rig", None)):
            patch = unittest.mock.patch.object(against, label, value)
            patch.start()
            self.addCleanup(patch.stop)

    def program(self, name: str, text: str, mode: int = 0o755) -> pathlib.Path:
        file = self.folder / name
        file.write_text(text)
        file.chmod(mode)
        return file

    def refused(self, *arguments: object) -> str:
        """Returns the program's output about a wrong command line."""
        with (
            unittest.mock.patch.object(sys, "argv", ["run.py", *map(str, arguments)]),
            contextlib.redirect_stderr(io.StringIO()) as printed,
            contextlib.redirect_stdout(io.StringIO()),
        ):
            self.assertEqual(run.main(), 64)
        return printed.getvalue()

    def test_a_missing_file_is_refused(self) -> None:
        self.assertIn(f"there is no file {self.folder}/nowhere", self.refused("--against", self.folder / "nowhere"))

    def test_a_folder_is_refused(self) -> None:
        self.assertIn(f"there is no file {self.folder}", self.refused("--against", self.folder))

    def test_a_file_without_execute_permission_is_refused(self) -> None:
        old = self.program("old", "#!/bin/sh\n", mode=0o644)
        self.assertIn(f"{old} cannot be run", self.refused("--against", old))

    def test_a_file_that_is_no_program_is_refused(self) -> None:
        old = self.program("old", "\x7fnothing")
        self.assertIn(f"{old} cannot be run", self.refused("--against", old))

    def test_another_program_is_refused(self) -> None:
        old = self.program("old", "#!/bin/sh\nexit 3\n")
        self.assertIn(f"{old} is no interlock", self.refused("--against", old))

    def test_a_current_binary_that_is_not_built_is_refused(self) -> None:
        self.current.unlink()
        self.assertIn(f"there is no file {self.current}", self.refused("--against", self.program("old", "#!/bin/sh\n")))

    def test_a_part_without_comparable_figures_is_refused(self) -> None:
        self.assertIn("no figures of growth", self.refused("--against", self.current, "--only", "sidecar,growth"))

    def test_fewer_pairs_than_a_verdict_needs_are_refused(self) -> None:
        self.assertIn("5 to 30 pairs", self.refused("--against", self.current, "--rounds", "4"))

    def test_the_library_is_found_in_the_folder_of_the_binary(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            (old, _), parts = against.check(self.current, ["limits", "sidecar"], 30)
        self.assertEqual(old.generator, self.folder / "InterlockBenchmarks")
        self.assertEqual(parts, ["sidecar", "limits"])

    def test_parts_are_separated_by_commas(self) -> None:
        self.assertEqual(run.parts_of("sidecar,limits"), ["sidecar", "limits"])
        with self.assertRaises(run.argparse.ArgumentTypeError):
            run.parts_of("sidecar,nonsense")


def above(quantile: float, freedom: int, steps: int = 4000) -> float:
    """Returns the fraction of Student's distribution above a quantile, by Simpson's rule from the middle."""
    scale = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))
    width = quantile / steps
    heights = [scale * (1 + (index * width) ** 2 / freedom) ** (-(freedom + 1) / 2) for index in range(steps + 1)]
    return 0.5 - width / 3 * (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]))


def code(*verdicts: str) -> int:
    return against.exit_code([("calls", verdict) for verdict in verdicts])


def first(result: against.Samples, count: int) -> against.Samples:
    part = against.Samples(result.falls)
    part.pairs = result.pairs[:count]
    return part


if __name__ == "__main__":
    unittest.main()
