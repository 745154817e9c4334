"""How latency and the commands to Redis grow with clients, names, waiters, sidecars and services, by `interlock bench`."""

import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Callable, NamedTuple

from figures.table import markdown
from rig import load
from rig.servers import BINARY, say

#: Operations a second, where a run does not wait for its answers.
RATE = 2_000
#: A run more or less hardly moves a line over decades.
MOST_ROUNDS = 3
#: The operation of each workload whose latency is shown.
OPERATIONS = {"lock": "acquire", "limit": "take"}
EXPLANATION = f"""\
**Growth**: runs of `interlock bench`, which starts a Redis and a sidecar of its own, and begins {RATE:,} operations a second whether
earlier ones are answered or not: latencies are counted from when an operation was due. Only for waiters each client comes again as soon
as it was answered: all want one lock, and the latency is that of standing in line. A lock is given back at once. Commands are those
that Redis received, for each operation. The services are those that `interlock bench` makes, whose refusals a sidecar remembers."""


class Sweep(NamedTuple):
    """One thing that grows while the others stay as they are."""

    key: str
    title: str
    sizes: tuple
    workloads: tuple
    #: Of `interlock bench`, for a size.
    options: Callable

    def arguments(self, workload, size):
        return [workload, *(str(word) for word in self.options(size))]


def at_rate(*options):
    return ["--rate", RATE, "--wait", "1s", *options]


SWEEPS = (
    Sweep("clients", "clients", (1, 10, 100, 1_000), ("lock", "limit"),
          lambda size: at_rate("--clients", size, "--names", 10_000, "--fleet", 1)),
    Sweep("names", "names", (1, 10, 100, 1_000, 10_000, 100_000), ("lock",),
          lambda size: at_rate("--clients", 64, "--names", size, "--fleet", 1)),
    Sweep("waiters", "waiters on one name", (1, 10, 100, 1_000), ("lock",),
          # One of the clients has the lock.
          lambda size: ["--closed-loop", "--wait", "60s", "--clients", size + 1, "--names", 1, "--fleet", 1]),
    Sweep("sidecars", "sidecars", (1, 2, 4, 8, 16), ("lock", "limit"),
          lambda size: at_rate("--clients", 64, "--names", 1_000, "--fleet", size)),
    Sweep("services", "services", (1, 10, 100, 1_000), ("limit",),
          lambda size: at_rate("--clients", 64, "--services", size, "--fleet", 1)),
)


class Point(NamedTuple):
    """What one run found, or the median of several. Latencies in milliseconds."""

    p50: float
    p99: float
    #: To Redis, for each operation.
    commands: float
    #: Share of the operations that failed, had no answer or could not even be sent.
    trouble: float
    violations: int


def missing():
    """What has to be built or installed before growth can be measured; None: nothing."""
    # An older one tells of itself instead.
    if b"--closed-loop" not in subprocess.run([BINARY, "bench", "lock", "--help"], capture_output=True).stdout:
        return f"{BINARY.name} has no bench: build it anew"
    return load.lacks("matplotlib")


def measure(table, rounds, scale):
    seconds = max(1, round(3 * scale / 100))
    rounds = min(rounds, MOST_ROUNDS)
    measured = {}
    with tempfile.TemporaryDirectory(prefix="interlock-growth-") as folder:
        for sweep in SWEEPS:
            for workload in sweep.workloads:
                for size in sweep.sizes:
                    points = []
                    for number in range(1, rounds + 1):
                        say(f"growth, {workload}, {sweep.title}: {size:,}, round {number} of {rounds}, {seconds} s …")
                        points.append(run(pathlib.Path(folder), sweep.arguments(workload, size), seconds))
                    measured[sweep.key, workload, size] = middle(points)
    report(table, measured)


def run(folder, arguments, seconds):
    file = folder / "report.json"
    file.unlink(missing_ok=True)
    # 1: a promise was broken, which is a figure here.
    load.output(
        BINARY, "bench", *arguments, "--hold", 0, "--duration", f"{seconds}s", "--json", file, seconds=seconds + 120, folder=folder,
        accepted=(0, 1))
    return point(json.loads(file.read_text()), OPERATIONS[arguments[0]])


def point(report, kind):
    """Of the JSON of a run."""
    operations = report["operations"]
    [operation] = [operation for operation in operations if operation["kind"] == kind]
    latency = operation.get("latency")
    if not latency:
        sys.exit(f"benchmark: growth: no {kind} was answered")
    offered = sum(operation["offered"] for operation in operations)
    trouble = sum(sum(operation["failed"].values()) + operation["unknown"] + operation["unsent"] for operation in operations)
    commands = report.get("redis_commands_per_operation")
    return Point(
        latency["p50_us"] / 1000, latency["p99_us"] / 1000, math.nan if commands is None else commands,
        trouble / max(1, offered), report["check"]["violation_count"])


def middle(points):
    *figures, violations = zip(*points)
    return Point(*map(statistics.median, figures), sum(violations))


def report(table, measured):
    rows = []
    for sweep in SWEEPS:
        lines = []
        for workload in sweep.workloads:
            points = [measured[sweep.key, workload, size] for size in sweep.sizes]
            tell(table, sweep, workload, points)
            rows += [row(sweep, workload, size, point) for size, point in zip(sweep.sizes, points)]
            lines.append({"name": OPERATIONS[workload], "p50": [point.p50 for point in points],
                          "p99": [point.p99 for point in points], "commands": [point.commands for point in points]})
        table.plots.append({"file": f"growth-{sweep.key}.svg", "title": sweep.title, "sizes": sweep.sizes, "lines": lines})
    violations = sum(point.violations for point in measured.values())
    table.add("growth: what the checkers found in all runs", str(violations), "–", str(violations), "0", violations == 0)
    images = "\n".join(f"![Latency and commands to Redis against {plot['title']}]({plot['file']})\n" for plot in table.plots)
    head = ("against", "size", "operation", "p50", "p99", "commands to Redis", "failed, unanswered or unsent")
    table.details.append(f"## How cost grows\n\n{images}\n{markdown(head, rows)}")


def tell(table, sweep, workload, points):
    first, last = points[0], points[-1]
    what = f"growth, {OPERATIONS[workload]}, {sweep.sizes[-1]:,} {sweep.title}"
    alone = f"{sweep.sizes[0]:,}: {first.p50:.2f} and {first.p99:.2f} ms"
    table.add(f"{what}: p50 and p99, ÷ those of the fewest", f"{last.p50:.2f} and {last.p99:.2f} ms", alone,
              f"{last.p50 / first.p50:.2f} and {last.p99 / first.p99:.2f}")
    table.add(f"{what}: commands to Redis for each operation", f"{last.commands:.2f}", f"{sweep.sizes[0]:,}: {first.commands:.2f}",
              f"{last.commands:.2f}")


def row(sweep, workload, size, point):
    return (sweep.title, f"{size:,}", OPERATIONS[workload], f"{point.p50:.2f} ms", f"{point.p99:.2f} ms", f"{point.commands:.2f}",
            f"{point.trouble:.1%}")
