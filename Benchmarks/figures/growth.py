"""The growth of latency and Redis commands with clients, names, waiters, sidecars, subjects, services and idle
connections.

Locks are released immediately, and the sidecar remembers the refusals of services.
"""

import json
import math
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from figures.table import Table
from rig import load
from rig.connections import IdleConnections, raise_open_files
from rig.servers import BENCH, Rig, print_line

#: Operations per second of the open loops.
RATE = 2_000
#: More rounds hardly change a line that spans decades.
MAX_ROUNDS = 3
#: The operation of each workload whose latency is shown.
OPERATIONS = {"lock": "acquire", "limit": "take"}
#: The maximum number of idle connections, and the other files that the sidecar or the client process may open.
MAX_IDLE, OTHER_FILES = 18_000, 2_000
#: Connections to a sidecar in addition to the idle ones: those of the load and its observers.
SPARE = 500
IDLE_CONFIGURATION = """
listen: {{ max_connections: {connections} }}
services:
  many: {{ limits: [ {{ limit: 1000000000, per: 1s }} ] }}
"""
EXPLANATION = f"""\
[`interlock bench`](bench.md) offers {RATE:,} operations/s. Waiters are a closed loop, so their latency is the queue's.
Idle connections use RESP; their memory excludes the kernel's."""


class Sweep(NamedTuple):
    """A quantity that grows while the others stay constant."""

    key: str
    title: str
    sizes: tuple
    workloads: tuple
    #: Options of `interlock bench` for a size.
    options: Callable
    #: The maximum p99 of a take, as a multiple of that of the smallest size; None: no bound.
    bound: float | None = None

    def arguments(self, workload: str, size: int) -> list[str]:
        return [workload, *(str(word) for word in self.options(size))]


def at_rate(*options: object) -> list[object]:
    return ["--rate", RATE, "--wait", "1s", *options]


SWEEPS = (
    Sweep(
        "clients",
        "clients",
        (1, 10, 100, 1_000),
        ("lock", "limit"),
        lambda size: at_rate("--clients", size, "--names", 10_000, "--fleet", 1),
    ),
    Sweep(
        "names",
        "names",
        (1, 10, 100, 1_000, 10_000, 100_000),
        ("lock",),
        lambda size: at_rate("--clients", 64, "--names", size, "--fleet", 1),
    ),
    Sweep(
        "waiters",
        "waiters on one name",
        (1, 10, 100, 1_000),
        ("lock",),
        # One of the clients holds the lock.
        lambda size: ["--closed-loop", "--wait", "60s", "--clients", size + 1, "--names", 1, "--fleet", 1],
    ),
    Sweep(
        "sidecars",
        "sidecars",
        (1, 2, 4, 8, 16),
        ("lock", "limit"),
        lambda size: at_rate("--clients", 64, "--names", 1_000, "--fleet", size),
        6,
    ),
    Sweep(
        "subjects",
        "subjects",
        (1, 100, 10_000),
        ("limit",),
        lambda size: at_rate("--clients", 64, "--names", size, "--fleet", 1),
        3,
    ),
    Sweep(
        "services",
        "services",
        (1, 10, 100, 1_000),
        ("limit",),
        lambda size: at_rate("--clients", 64, "--services", size, "--fleet", 1),
        3,
    ),
)


def idle_sweep(files: int | None) -> Sweep | None:
    """Returns the sweep of takes with idle connections, or None if a process may open too few files."""
    maximum = MAX_IDLE if files is None else min(MAX_IDLE, files - OTHER_FILES)
    if maximum < 100:
        return None
    # The sidecar is already running, so the options are only those of the load.
    return Sweep(
        "idle", "idle connections", (1, maximum // 10, maximum), ("limit",), lambda _: at_rate("--clients", 64), 1.5
    )


class Point(NamedTuple):
    """The result of one run, or the median of several. Latencies in milliseconds."""

    p50: float
    p99: float
    #: Commands to Redis per operation.
    commands: float
    #: The fraction of operations that failed, were not answered or could not be sent.
    unserved: float
    violations: int


def missing() -> str | None:
    """Returns what must be built or installed to measure growth, or None."""
    if not BENCH.exists():
        return f"{BENCH.name} is not built: make build"
    return load.missing_library("matplotlib")


def measure(table: Table, rounds: int, scale: int) -> None:
    seconds = max(1, round(3 * scale / 100))
    rounds = min(rounds, MAX_ROUNDS)
    measured = {}
    with tempfile.TemporaryDirectory(prefix="interlock-growth-") as folder:
        for sweep in SWEEPS:
            for workload in sweep.workloads:
                for size in sweep.sizes:
                    points = []
                    for number in range(1, rounds + 1):
                        print_line(
                            f"growth, {workload}, {sweep.title}: {size:,}, round {number} of {rounds}, {seconds} s …"
                        )
                        points.append(run(pathlib.Path(folder), sweep.arguments(workload, size), seconds))
                    measured[sweep.key, workload, size] = median_point(points)
        sweeps = [*SWEEPS]
        if idle := idle_sweep(raise_open_files()):
            sweeps.append(idle)
            idle_points, each = measure_idle(pathlib.Path(folder), idle, rounds, seconds)
            measured |= idle_points
    report(table, measured, sweeps)
    if not idle:
        table.missing("growth, idle connections", f"a process needs more than {OTHER_FILES:,} open files")
        return
    table.add(
        "all: memory per idle connection",
        f"{each:.2f} KB",
        f"{each * 100_000 / 1024:,.0f} MB for 100,000",
        f"{each:.2f} KB",
    )


def measure_idle(
    folder: pathlib.Path, sweep: Sweep, rounds: int, seconds: int
) -> tuple[dict[tuple[str, str, int], Point], float]:
    """Returns the results for each number of idle connections, and the kilobytes per connection of the largest one."""
    maximum = sweep.sizes[-1]
    points: dict[int, list[Point]] = {size: [] for size in sweep.sizes}
    kilobytes = []
    with Rig(IDLE_CONFIGURATION.format(connections=maximum + SPARE)) as rig:
        for number in range(1, rounds + 1):
            for size in sweep.sizes:
                print_line(f"growth, limit, {sweep.title}: {size:,}, round {number} of {rounds}, {seconds} s …")
                sidecar = rig.start_sidecar()
                # Memory that the first calls need is not counted.
                addressed = ["--sidecars", sidecar.address, "--service", "many"]
                run(folder, [*sweep.arguments("limit", size), *addressed], 1)
                before = sidecar.resident_kilobytes()
                connections = IdleConnections(sidecar.port, size)
                time.sleep(0.5)
                if size == maximum:
                    kilobytes.append((sidecar.resident_kilobytes() - before) / size)
                points[size].append(run(folder, [*sweep.arguments("limit", size), *addressed], seconds))
                connections.close()
                rig.stop(sidecar.process)
    return {(sweep.key, "limit", size): median_point(points[size]) for size in sweep.sizes}, statistics.median(
        kilobytes
    )


def run(folder: pathlib.Path, arguments: Sequence[str], seconds: int) -> Point:
    file = folder / "report.json"
    file.unlink(missing_ok=True)
    # Exit code 1 means violations, which are a figure here.
    load.output(
        BENCH,
        *arguments,
        "--hold",
        0,
        "--duration",
        f"{seconds}s",
        "--json",
        file,
        seconds=seconds + 120,
        folder=folder,
        accepted=(0, 1),
    )
    return point(json.loads(file.read_text()), OPERATIONS[arguments[0]])


def point(report: Mapping[str, Any], kind: str) -> Point:
    """Reads the JSON of a run."""
    operations = report["operations"]
    [operation] = [operation for operation in operations if operation["kind"] == kind]
    latency = operation.get("latency")
    if not latency:
        sys.exit(f"benchmark: growth: no {kind} was answered")
    offered = sum(operation["offered"] for operation in operations)
    unserved = sum(
        sum(operation["failed"].values()) + operation["unknown"] + operation["unsent"] for operation in operations
    )
    commands = report.get("redis_commands_per_operation")
    return Point(
        latency["p50_us"] / 1000,
        latency["p99_us"] / 1000,
        math.nan if commands is None else commands,
        unserved / max(1, offered),
        report["check"]["violation_count"],
    )


def median_point(points: Sequence[Point]) -> Point:
    return Point(
        statistics.median(point.p50 for point in points),
        statistics.median(point.p99 for point in points),
        statistics.median(point.commands for point in points),
        statistics.median(point.unserved for point in points),
        sum(point.violations for point in points),
    )


def report(table: Table, measured: Mapping[tuple[str, str, int], Point], sweeps: Sequence[Sweep] = SWEEPS) -> None:
    for sweep in sweeps:
        lines = []
        for workload in sweep.workloads:
            points = [measured[sweep.key, workload, size] for size in sweep.sizes]
            add_rows(table, sweep, workload, points)
            lines.append(
                {
                    "name": OPERATIONS[workload],
                    "p50": [point.p50 for point in points],
                    "p99": [point.p99 for point in points],
                    "commands": [point.commands for point in points],
                }
            )
        table.plots.append(
            {"file": f"growth-{sweep.key}.svg", "title": sweep.title, "sizes": sweep.sizes, "lines": lines}
        )
    violations = sum(point.violations for point in measured.values())
    table.add("all: violations of invariants", str(violations), "–", str(violations), "0", violations == 0)
    unserved = max(point.unserved for point in measured.values())
    table.add("all: operations failed, unanswered or unsent", f"{unserved:.1%}", "–", f"{unserved:.1%}")
    images = "\n\n".join(f"![By {plot['title']}]({plot['file']})" for plot in table.plots)
    table.details.append(f"### How cost grows\n\n{images}")


def add_rows(table: Table, sweep: Sweep, workload: str, points: Sequence[Point]) -> None:
    if workload != "limit" or sweep.bound is None:
        return
    ratio = points[-1].p99 / points[0].p99
    table.add(
        f"take, p99 ÷ smallest size's: {sweep.sizes[-1]:,} {sweep.title}",
        f"{ratio:.2f}",
        "–",
        f"{ratio:.2f}",
        f"≤ {sweep.bound}",
        ratio <= sweep.bound,
    )
