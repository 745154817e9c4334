"""Compares an older binary with the current one, pair by pair on the same Redis: which figures are over 3 % worse?

A pair measures each side once, one right after the other. The side that goes first alternates. The ratio of a pair is
new ÷ old, and old ÷ new for a latency, so that above 1 is better. A figure is worse when the 95 % interval of its mean
ratio is wholly below 0.97. Each side of each pair starts its own sidecars on an emptied Redis.
"""

import contextlib
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from figures import decisions, locks, saturation, sidecar
from figures.table import Row, markdown
from rig import load
from rig.client import Client, Command
from rig.load import Load
from rig.servers import BINARY, CONFIGURATION, Rig, Sidecar, print_line

#: A mean ratio below this limit, by its confidence interval, is worse.
BOUND = 0.97
#: The minimum and the maximum number of pairs of a figure.
MIN_PAIRS, MAX_PAIRS = 5, 30
#: Runs of a side in a pair, which counts by their median. A run has this fraction of the usual length.
RUNS = 3
#: The number of names when names are reused; their locks are rarely still held.
REUSED_NAMES = 50_000
#: Student's t: the two-sided 95 % quantiles for 1 to 29 degrees of freedom.
QUANTILES = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
)
OPEN, WORSE, NOT_WORSE, FAILED, MISSING = "undecided", "WORSE", "not worse", "FAILED", "missing"
#: Exit codes other than 0 and 1. Exit code 1 means only that a figure is worse.
USAGE, BROKEN = os.EX_USAGE, os.EX_SOFTWARE
HEAD = ("figure", "old", "new", "pairs", "ratio", "95 % interval", "verdict")


class Unusable(Exception):
    """An error in the command line."""


Runs = list[float]
"""The runs of one side in one pair."""


class Side(NamedTuple):
    name: str
    binary: pathlib.Path

    @property
    def generator(self) -> pathlib.Path:
        """Returns the load generator that is linked with this side's library."""
        return self.binary.with_name(load.GENERATOR.name)


Sides = tuple[Side, Side]
"""The old and the new side."""


class Figure(NamedTuple):
    label: str
    #: Measures the runs of a side. Takes the rig, the side and the scale.
    measure: Callable
    unit: str = "/s"
    #: True if a lower value is better.
    falls: bool = False
    #: True if the side's own load generator measures it.
    of_library: bool = False

    def text(self, value: float) -> str:
        return f"{number_text(value)}{self.unit}"


def number_text(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


class Samples:
    """All pairs of one figure, without exception."""

    def __init__(self, falls: bool = False) -> None:
        self.falls = falls
        #: (old, new)
        self.pairs: list[tuple[float, float]] = []

    def log_ratios(self) -> list[float]:
        logs = [math.log(new) - math.log(old) for old, new in self.pairs]
        return [-log for log in logs] if self.falls else logs

    @property
    def ratio(self) -> float:
        return math.exp(statistics.fmean(self.log_ratios()))

    @property
    def interval(self) -> tuple[float, float]:
        """Returns the 95 % interval of the mean ratio, which is unlimited for a single pair."""
        logs = self.log_ratios()
        if len(logs) < 2:
            return 0, math.inf
        half = QUANTILES[len(logs) - 2] * statistics.stdev(logs) / math.sqrt(len(logs))
        return math.exp(statistics.fmean(logs) - half), math.exp(statistics.fmean(logs) + half)

    @property
    def verdict(self) -> str:
        """Returns the verdict. More pairs are measured only while it is undecided."""
        low, high = self.interval
        if len(self.pairs) < MIN_PAIRS or low <= BOUND <= high:
            return OPEN
        return WORSE if high < BOUND else NOT_WORSE


@contextlib.contextmanager
def started(rig: Rig, side: Side, count: int = 1, first: Command | None = None) -> Iterator[list[Sidecar]]:
    """Starts sidecars of a side on an emptied Redis, and sends them one command first."""
    Client(rig.redis_port).command("FLUSHALL")
    others = list(rig.processes)
    try:
        sidecars = rig.start_fleet(count, binary=side.binary)
        if first:
            Client(sidecars[0].port).command(*first)
        yield sidecars
    finally:
        # Includes sidecars that never became ready, which would disturb the next measurement.
        for process in [process for process in rig.processes if process not in others]:
            rig.stop(process)


def of_load(requests: Load, shape: str | None, first: Command | None) -> Figure:
    """Returns the figure of a `Load`, in requests per second."""

    def measure(rig: Rig, side: Side, scale: int) -> Runs:
        with started(rig, side, first=first) as [server]:
            requests.rate(server.port, scale / 5)
            return [requests.rate(server.port, scale / RUNS) for _ in range(RUNS)]

    return Figure(f"{requests.label}, {shape}" if shape else requests.label, measure)


def of_script(shape: str, names: int) -> Figure:
    """Returns the figure of the script that a sidecar sends to Redis for a free lock, sent without the sidecar. The
    time is Redis's own, since redis-benchmark is slower than Redis. The clock argument is a recorded one, which
    existing counters do not need, as with locks that are acquired again within the slack."""

    def measure(rig: Rig, side: Side, scale: int) -> Runs:
        with started(rig, side) as [server]:
            # A lock is free before its name is used again.
            words = [
                "1" if word == "1000" else word for word in sidecar.acquire_as_sent(rig, server)("direct__rand_int__")
            ]
            direct = sidecar.ACQUIRE._replace(command=words, requests=300_000, pipeline=16, names=names)
            # Repeated names have been used before.
            direct._replace(requests=5 * min(names, REUSED_NAMES)).rate(rig.redis_port, 100)
            return [redis_time(rig.redis_port, direct, scale / RUNS) for _ in range(RUNS)]

    return Figure(
        f"acquire script straight to Redis, pipelines of 16, {shape}, Redis's time", measure, " µs", falls=True
    )


def redis_time(port: int, requests: Load, scale: float) -> float:
    """Returns Redis's busy microseconds for each script of a load."""
    redis = Client(port)
    redis.command("CONFIG", "RESETSTAT")
    requests.rate(port, scale)
    line = redis.info("commandstats")["cmdstat_evalsha"]
    redis.close()
    return float(line.partition("usec_per_call=")[2].split(",")[0])


def of_latency() -> Figure:
    def measure(rig: Rig, side: Side, scale: int) -> Runs:
        with started(rig, side) as [server]:
            samples = max(100, 3000 * scale // 100 // RUNS)
            return [sidecar.acquire_latency(server.port, samples) for _ in range(RUNS)]

    return Figure("LOCK.ACQUIRE, one client, median latency", measure, unit=" µs", falls=True)


def seconds(scale: int) -> float:
    return max(1, 5 * scale / 100 / RUNS)


def of_cycles(waiters: int, sidecars: int) -> Figure:
    """Returns the figure of acquire and release cycles of one lock."""

    def measure(rig: Rig, side: Side, scale: int) -> Runs:
        with started(rig, side, sidecars) as fleet:
            runs = [
                locks.run_handover(rig, fleet, waiters, f"handover-{number}", seconds(scale)) for number in range(RUNS)
            ]
        if any(run["errors"] + run["violations"] for run in runs):
            raise RuntimeError(f"clients refused, or two holders at once: {runs}")
        return locks.per_second(runs)

    clients = "+".join([str(waiters)] * sidecars)
    return Figure(
        f"LOCK.ACQUIRE and LOCK.RELEASE of one lock, {clients} client{'' if clients == '1' else 's'}", measure
    )


def of_library(label: str, callers: int, *options: object) -> Figure:
    def measure(rig: Rig, side: Side, scale: int) -> Runs:
        Client(rig.redis_port).command("FLUSHALL")
        return [
            locks.library_cycles(rig, callers, seconds(scale), *options, generator=side.generator) for _ in range(RUNS)
        ]

    return Figure(f"library, {label}: locks taken and given back", measure, of_library=True)


def of_tail(shape: saturation.Shape) -> Figure:
    """Returns the figure of locks next to a saturated proxy."""

    def measure(rig: Rig, side: Side, scale: int) -> Runs:
        Client(rig.redis_port).command("FLUSHALL")
        return [saturation.tail(rig, side.binary, shape, seconds(scale) + 1) for _ in range(RUNS)]

    return Figure(
        f"LOCK.ACQUIRE and LOCK.RENEW, p99 while the proxy is saturated, {shape.label}", measure, " µs", falls=True
    )


def of_proxy(shape: saturation.Shape) -> Figure:
    """Returns the figure of a saturated proxy."""

    def measure(rig: Rig, side: Side, scale: int) -> Runs:
        return saturation.rates(rig, side.binary, shape, [round(seconds(scale))] * RUNS)

    return Figure(f"proxy, {shape.label}: requests", measure)


def of_commands() -> list[Figure]:
    """Returns the figures of every command: one client, 50 clients, and 50 clients with pipelines. The part `limits`
    covers limits in pipelines."""
    take, acquire = sidecar.TAKE, sidecar.ACQUIRE
    permit = sidecar.PERMIT._replace(pipeline=1, requests=150_000)
    state = permit._replace(label="BREAKER.STATE", command=("BREAKER.STATE", "shut"))
    singles = [
        of_load(each._replace(clients=1, requests=30_000), "one client", sidecar.OPENING)
        for each in (take, permit, state)
    ]
    many = [of_load(each, "50 clients", sidecar.OPENING) for each in (take, acquire, permit, state)]
    piped = [
        of_load(each, "pipelines of 16", sidecar.OPENING)
        for each in (acquire._replace(pipeline=16), sidecar.PERMIT, state._replace(pipeline=16, requests=600_000))
    ]
    scripts = [of_script("names that come again at once", REUSED_NAMES), of_script("each name once", 100_000_000)]
    return [of_latency(), *scripts, *singles, *many, *piped]


#: For each part: the YAML of its services, and its figures.
PARTS = {
    "sidecar": (CONFIGURATION, of_commands()),
    "locks": (
        CONFIGURATION,
        [
            of_cycles(1, 1),
            of_cycles(50, 1),
            of_cycles(locks.PEER_SIZE, 2),
            of_library(f"{locks.LIBRARY_CALLERS} callers", locks.LIBRARY_CALLERS),
            of_library("one caller", 1),
            of_library("one caller where the coordinator lives", 1, "--near"),
        ],
    ),
    "proxy": (saturation.CONFIGURATION, [of_proxy(shape) for shape in saturation.SHAPES]),
    "saturation": (saturation.CONFIGURATION, [of_tail(shape) for shape in saturation.SHAPES]),
    "limits": (
        decisions.CONFIGURATION,
        [of_load(kind.interlock, None, decisions.SPENDING) for kind in decisions.kinds()],
    ),
}


def compare(figure: Figure, rig: Rig, sides: Sides, scale: int, maximum: int = MAX_PAIRS) -> Samples:
    """Measures pairs of a figure until its verdict is decided, or there are too many pairs."""
    samples = Samples(figure.falls)
    while samples.verdict == OPEN and len(samples.pairs) < maximum:
        number = len(samples.pairs) + 1
        runs = {}
        for side in sides if number % 2 else sides[::-1]:
            try:
                runs[side.name] = figure.measure(rig, side, scale)
            # The rig and the loads raise SystemExit with a message.
            except (SystemExit, Exception) as error:
                raise RuntimeError(f"the {side.name} side of pair {number}: {error}") from error
        samples.pairs.append(tuple(statistics.median(runs[side.name]) for side in sides))
        print_line(f"{figure.label}, pair {number}: {both_sides(figure, runs)}; {summary(samples)}")
    return samples


def both_sides(figure: Figure, runs: Mapping[str, Runs]) -> str:
    """Returns both sides of a pair as text, in the order of their measurement."""
    return ", ".join(
        f"{name} {figure.text(statistics.median(each))} of {' '.join(number_text(run) for run in each)}"
        for name, each in runs.items()
    )


def summary(samples: Samples) -> str:
    old, new = samples.pairs[-1]
    ratio = old / new if samples.falls else new / old
    return f"ratio {ratio:.3f}, of all {samples.ratio:.3f}, {interval_text(samples)}: {samples.verdict}"


def interval_text(samples: Samples) -> str:
    low, high = samples.interval
    return f"{low:.3f} to {high:.3f}" if math.isfinite(high) else "–"


def row(figure: Figure, samples: Samples) -> Row:
    old, new = (figure.text(statistics.median(side)) for side in zip(*samples.pairs, strict=True))
    return (
        figure.label,
        old,
        new,
        str(len(samples.pairs)),
        f"{samples.ratio:.3f}",
        interval_text(samples),
        samples.verdict,
    )


def measure(figure: Figure, rig: Rig, sides: Sides, scale: int, maximum: int) -> Row:
    """Returns the figure's row. A failure is noted in the row and does not stop the next figure."""
    lacking = [side.generator for side in sides if figure.of_library and not os.access(side.generator, os.X_OK)]
    if lacking:
        return (figure.label, "–", "–", "0", f"there is no {lacking[0]}", "–", MISSING)
    try:
        return row(figure, compare(figure, rig, sides, scale, maximum))
    except RuntimeError as error:
        print_line(f"{figure.label}: {FAILED}: {error}")
        return (figure.label, "–", "–", "–", str(error).replace("\n", " ")[:300], "–", FAILED)


def exit_code(rows: Sequence[Row]) -> int:
    verdicts = {row[-1] for row in rows}
    return 1 if WORSE in verdicts else BROKEN if FAILED in verdicts else 0


def version(binary: pathlib.Path) -> str:
    """Runs `interlock --version`."""
    if not binary.is_file():
        raise Unusable(f"there is no file {binary}")
    try:
        result = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unusable(f"{binary} cannot be run: {getattr(error, 'strerror', None) or error}") from error
    if result.returncode != 0:
        raise Unusable(f"{binary} is no interlock: its --version ended with {result.returncode}")
    return result.stdout.strip()


def check(path: str | pathlib.Path, only: Sequence[str] | None, maximum: int) -> tuple[Sides, list[str]]:
    """Returns the sides and the parts that the command line selects."""
    old, new = Side("old", pathlib.Path(path).absolute()), Side("new", BINARY)
    if unknown := [part for part in only or () if part not in PARTS]:
        raise Unusable(f"--against has no figures of {', '.join(unknown)}, only of {', '.join(PARTS)}")
    if not MIN_PAIRS <= maximum <= MAX_PAIRS:
        raise Unusable(f"--against takes {MIN_PAIRS} to {MAX_PAIRS} pairs, not --rounds {maximum}")
    try:
        versions = {side.name: version(side.binary) for side in (new, old)}
    except Unusable as error:
        raise Unusable(
            f"{error}; --against needs the path of an executable interlock, and .build/release/interlock built"
        ) from error
    parts = [part for part in PARTS if part in (only or PARTS)]
    if "locks" in parts and not load.GENERATOR.exists():
        raise Unusable("InterlockBenchmarks is not built; `make bench` builds it")
    for side in (old, new):
        print_line(f"{side.name}: {side.binary}, {versions[side.name]}")
    return (old, new), parts


def main(path: str | pathlib.Path, only: Sequence[str] | None, rounds: int | None, scale: int) -> int:
    """Returns the exit code."""
    maximum = MAX_PAIRS if rounds is None else rounds
    try:
        sides, parts = check(path, only, maximum)
    except Unusable as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return USAGE
    # Like Ctrl-C, so that every server is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rows = []
    try:
        for part in parts:
            configuration, figures = PARTS[part]
            with Rig(configuration) as rig:
                rows += [measure(figure, rig, sides, scale, maximum) for figure in figures]
    except (SystemExit, OSError) as error:
        # For example, Redis did not start. Exit code 1 would mean that a figure is worse.
        rows.append(("the servers", "–", "–", "–", str(error), "–", FAILED))
    print("\n" + markdown(HEAD, rows, gap=" ") + "\n")
    for verdict, label in (
        (WORSE, f"worse by more than {1 - BOUND:.0%}"),
        (OPEN, f"undecided after {maximum} pairs"),
        (FAILED, "failed"),
    ):
        print(f"{label}: {'; '.join(row[0] for row in rows if row[-1] == verdict) or 'nothing'}", flush=True)
    return exit_code(rows)
