import contextlib
import io
import math
import unittest
from typing import Any

from figures import growth
from figures.table import Table


def report(latency: dict[str, int] | None = None, **fields: object) -> dict[str, Any]:
    operation = {"kind": "acquire", "offered": 80, "failed": {"UNAVAILABLE": 2}, "unknown": 1, "unsent": 1}
    if latency:
        operation["latency"] = latency
    release = {"kind": "release", "offered": 20, "failed": {}, "unknown": 0, "unsent": 0}
    return {
        "operations": [operation, release],
        "redis_commands_per_operation": 1.5,
        "check": {"violation_count": 0},
        **fields,
    }


LATENCY = {"p50_us": 250, "p99_us": 4000}


class GrowthTest(unittest.TestCase):
    def test_a_point_shows_the_operation_of_the_workload(self) -> None:
        point = growth.point(report(LATENCY), "acquire")
        self.assertEqual((point.p50, point.p99, point.commands), (0.25, 4, 1.5))

    def test_unserved_is_a_fraction_of_all_operations(self) -> None:
        self.assertEqual(growth.point(report(LATENCY), "acquire").unserved, 0.04)

    def test_missing_command_counts_are_nan(self) -> None:
        silent = report(LATENCY)
        del silent["redis_commands_per_operation"]
        self.assertTrue(math.isnan(growth.point(silent, "acquire").commands))

    def test_a_run_without_an_answer_ends_the_benchmark(self) -> None:
        with self.assertRaises(SystemExit):
            growth.point(report(), "acquire")

    def test_the_median_of_runs_adds_up_the_violations(self) -> None:
        points = [growth.Point(p50, 9 - p50, 2, 0, violations) for p50, violations in ((1, 0), (5, 2), (3, 1))]
        self.assertEqual(growth.median_point(points), growth.Point(3, 6, 2, 0, 3))

    def test_each_sweep_changes_one_option_only(self) -> None:
        for sweep in growth.SWEEPS:
            first, last = (sweep.arguments("lock", size) for size in (sweep.sizes[0], sweep.sizes[-1]))
            self.assertEqual(sum(a != b for a, b in zip(first, last, strict=True)), 1, sweep.key)

    def test_the_number_of_idle_connections_depends_on_the_file_limit(self) -> None:
        for files, sizes in ((None, (1, 1_800, 18_000)), (1 << 20, (1, 1_800, 18_000)), (5_000, (1, 300, 3_000))):
            sweep = growth.idle_sweep(files)
            self.assertEqual(sweep and sweep.sizes, sizes)
        self.assertIsNone(growth.idle_sweep(1_024))

    def test_every_sweep_is_plotted_and_shown(self) -> None:
        table = Table()
        with contextlib.redirect_stdout(io.StringIO()):
            growth.report(
                table,
                {
                    (sweep.key, workload, size): growth.Point(1, 2, 3, 0, 0)
                    for sweep in growth.SWEEPS
                    for workload in sweep.workloads
                    for size in sweep.sizes
                },
            )
        self.assertEqual([plot["file"] for plot in table.plots], [f"growth-{sweep.key}.svg" for sweep in growth.SWEEPS])
        self.assertTrue(all(f"]({plot['file']})" in table.details[0] for plot in table.plots))


if __name__ == "__main__":
    unittest.main()
