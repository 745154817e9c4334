"""The binary of before and the present one in one run, pair by pair on the same Redis: which figures are worse by more than 3 %?

A pair is one measurement of each side, one right after the other; who goes first alternates. Its ratio is new ÷ old of what is
better when it is more, and old ÷ new of a latency: above 1 is better. A figure is worse when the 95 % interval of its mean ratio
lies wholly below 0.97. Every side of every pair starts servers of its own on an emptied Redis.
"""

import contextlib
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
from typing import Callable, NamedTuple

from figures import decisions, locks, sidecar
from figures.table import markdown
from rig import load
from rig.client import Client
from rig.servers import BINARY, CONFIGURATION, Rig, say

#: A mean ratio surely below this is worse.
BOUND = 0.97
#: Pairs of a figure.
LEAST, MOST = 5, 30
#: Of a side in a pair, which counts with their median; each lasts this share of a run of the other parts.
RUNS = 3
#: Student's t: the two-sided 95 % quantiles for 1 to 29 degrees of freedom.
QUANTILES = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045)
OPEN, WORSE, NOT_WORSE, FAILED, MISSING = "undecided", "WORSE", "not worse", "FAILED", "missing"
#: Exit codes, besides 0 and 1: 1 says that a figure is worse, and nothing else.
USAGE, BROKEN = os.EX_USAGE, os.EX_SOFTWARE
HEAD = ("what", "old", "new", "pairs", "ratio", "95 % interval", "verdict")


class Unusable(Exception):
    """Why the command line cannot be used."""


class Side(NamedTuple):
    name: str
    binary: pathlib.Path

    @property
    def generator(self):
        """What measures the library: it is linked into it."""
        return self.binary.with_name(load.GENERATOR.name)


class Figure(NamedTuple):
    what: str
    #: The runs of a side: from the rig, the side and the scale.
    measure: Callable
    unit: str = "/s"
    #: Better when it is less.
    falls: bool = False
    #: Measured by the load generator of the side itself.
    of_library: bool = False

    def text(self, value):
        return f"{value:,.0f}{self.unit}"


class Samples:
    """What all pairs of one figure say; none is ever left out."""

    def __init__(self, falls=False):
        self.falls = falls
        #: (old, new)
        self.pairs = []

    def log_ratios(self):
        logs = [math.log(new) - math.log(old) for old, new in self.pairs]
        return [-log for log in logs] if self.falls else logs

    @property
    def ratio(self):
        return math.exp(statistics.fmean(self.log_ratios()))

    @property
    def interval(self):
        """Of the mean of the log ratios, as ratios; one pair bounds nothing."""
        logs = self.log_ratios()
        if len(logs) < 2:
            return 0, math.inf
        half = QUANTILES[len(logs) - 2] * statistics.stdev(logs) / math.sqrt(len(logs))
        return math.exp(statistics.fmean(logs) - half), math.exp(statistics.fmean(logs) + half)

    @property
    def verdict(self):
        """More pairs are only asked for while it is open."""
        low, high = self.interval
        if len(self.pairs) < LEAST or low <= BOUND <= high:
            return OPEN
        return WORSE if high < BOUND else NOT_WORSE


@contextlib.contextmanager
def started(rig, side, count=1, first=None):
    """Sidecars of a side, on a Redis without anything of the other's, and told one command first."""
    Client(rig.redis_port).command("FLUSHALL")
    others = list(rig.processes)
    try:
        sidecars = rig.start_fleet(count, binary=side.binary)
        if first:
            Client(sidecars[0].port).command(*first)
        yield sidecars
    finally:
        # One that never became ready, too: it would run beside what is measured next.
        for process in [process for process in rig.processes if process not in others]:
            rig.stop(process)


def of_load(asked, shape, first):
    """Requests per second of a `Load`."""
    def measure(rig, side, scale):
        with started(rig, side, first=first) as [server]:
            asked.rate(server.port, scale / 5)
            return [asked.rate(server.port, scale / RUNS) for _ in range(RUNS)]
    return Figure(f"{asked.what}, {shape}" if shape else asked.what, measure)


def of_latency():
    def measure(rig, side, scale):
        with started(rig, side) as [server]:
            samples = max(100, 3000 * scale // 100 // RUNS)
            return [sidecar.acquire_latency(server.port, samples) for _ in range(RUNS)]
    return Figure("LOCK.ACQUIRE, one client, median latency", measure, unit=" µs", falls=True)


def seconds(scale):
    return max(1, 5 * scale / 100 / RUNS)


def of_cycles(waiters, sidecars):
    """Acquired and released: hand-over, also to oneself."""
    def measure(rig, side, scale):
        with started(rig, side, sidecars) as fleet:
            runs = [locks.run_handover(rig, fleet, waiters, f"handover-{number}", seconds(scale)) for number in range(RUNS)]
        if any(run["errors"] + run["violations"] for run in runs):
            raise RuntimeError(f"clients refused, or two holders at once: {runs}")
        return locks.per_second(runs)
    clients = "+".join([str(waiters)] * sidecars)
    return Figure(f"LOCK.ACQUIRE and LOCK.RELEASE of one lock, {clients} client{'' if clients == '1' else 's'}", measure)


def of_library(what, callers, *options):
    def measure(rig, side, scale):
        Client(rig.redis_port).command("FLUSHALL")
        return [locks.library_cycles(rig, callers, seconds(scale), *options, generator=side.generator) for _ in range(RUNS)]
    return Figure(f"library, {what}: locks taken and given back", measure, of_library=True)


def of_doors():
    """Every command by one client, by 50, and by 50 in pipelines; limits in pipelines are of the part `limits`."""
    take, acquire = sidecar.TAKE, sidecar.ACQUIRE
    permit = sidecar.PERMIT._replace(pipeline=1, requests=150_000)
    state = permit._replace(what="BREAKER.STATE", command=("BREAKER.STATE", "shut"))
    singles = [of_load(each._replace(clients=1, requests=30_000), "one client", sidecar.OPENING) for each in (take, permit, state)]
    many = [of_load(each, "50 clients", sidecar.OPENING) for each in (take, acquire, permit, state)]
    piped = [
        of_load(each, "pipelines of 16", sidecar.OPENING)
        for each in (acquire._replace(pipeline=16), sidecar.PERMIT, state._replace(pipeline=16, requests=600_000))]
    return [of_latency(), *singles, *many, *piped]


#: What the sidecars of each part are told of services, and its figures.
PARTS = {
    "sidecar": (CONFIGURATION, of_doors()),
    "locks": (CONFIGURATION, [
        of_cycles(1, 1), of_cycles(50, 1), of_cycles(locks.BESIDE_PEERS, 2),
        of_library(f"{locks.LIBRARY_CALLERS} callers", locks.LIBRARY_CALLERS), of_library("one caller", 1),
        of_library("one caller where the coordinator lives", 1, "--near")]),
    "limits": (decisions.CONFIGURATION, [of_load(kind.ours, None, decisions.SPENDING) for kind in decisions.kinds()]),
}


def compare(figure, rig, sides, scale, most=MOST):
    """Pairs of a figure until its verdict is no longer open, or there are too many."""
    samples = Samples(figure.falls)
    while samples.verdict == OPEN and len(samples.pairs) < most:
        number = len(samples.pairs) + 1
        runs = {}
        for side in sides if number % 2 else sides[::-1]:
            try:
                runs[side.name] = figure.measure(rig, side, scale)
            # The rig and the loads end by SystemExit, with a message.
            except (SystemExit, Exception) as error:
                raise RuntimeError(f"the {side.name} side of pair {number}: {error}") from error
        samples.pairs.append(tuple(statistics.median(runs[side.name]) for side in sides))
        say(f"{figure.what}, pair {number}: {told(figure, runs)}; {summary(samples)}")
    return samples


def told(figure, runs):
    """Both sides of a pair, in the order in which they were measured."""
    return ", ".join(
        f"{name} {figure.text(statistics.median(each))} of {' '.join(f'{run:,.0f}' for run in each)}" for name, each in runs.items())


def summary(samples):
    old, new = samples.pairs[-1]
    return f"ratio {old / new if samples.falls else new / old:.3f}, of all {samples.ratio:.3f}, {interval_text(samples)}: {samples.verdict}"


def interval_text(samples):
    low, high = samples.interval
    return f"{low:.3f} to {high:.3f}" if math.isfinite(high) else "–"


def row(figure, samples):
    old, new = (figure.text(statistics.median(side)) for side in zip(*samples.pairs))
    return (figure.what, old, new, str(len(samples.pairs)), f"{samples.ratio:.3f}", interval_text(samples), samples.verdict)


def measure(figure, rig, sides, scale, most):
    """The figure's row. What cannot be measured is told there and holds up nothing else."""
    lacking = [side.generator for side in sides if figure.of_library and not os.access(side.generator, os.X_OK)]
    if lacking:
        return (figure.what, "–", "–", "0", f"there is no {lacking[0]}", "–", MISSING)
    try:
        return row(figure, compare(figure, rig, sides, scale, most))
    except RuntimeError as error:
        say(f"{figure.what}: {FAILED}: {error}")
        return (figure.what, "–", "–", "–", str(error).replace("\n", " ")[:300], "–", FAILED)


def exit_code(rows):
    verdicts = {row[-1] for row in rows}
    return 1 if WORSE in verdicts else BROKEN if FAILED in verdicts else 0


def version(binary):
    """What an `interlock` says of itself."""
    if not binary.is_file():
        raise Unusable(f"there is no file {binary}")
    try:
        asked = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unusable(f"{binary} cannot be run: {getattr(error, 'strerror', None) or error}") from error
    if asked.returncode != 0:
        raise Unusable(f"{binary} is no interlock: its --version ended with {asked.returncode}")
    return asked.stdout.strip()


def check(path, only, most):
    """The sides and parts that a command line asks for."""
    old, new = Side("old", pathlib.Path(path).absolute()), Side("new", BINARY)
    if unknown := [part for part in only or () if part not in PARTS]:
        raise Unusable(f"--against has no figures of {', '.join(unknown)}, only of {', '.join(PARTS)}")
    if not LEAST <= most <= MOST:
        raise Unusable(f"--against takes {LEAST} to {MOST} pairs, not --rounds {most}")
    try:
        versions = {side.name: version(side.binary) for side in (new, old)}
    except Unusable as error:
        raise Unusable(f"{error}; --against needs the path of an executable interlock, and .build/release/interlock built") from error
    parts = [part for part in PARTS if part in (only or PARTS)]
    if "locks" in parts and not load.GENERATOR.exists():
        raise Unusable("build first: swift build -c release --product InterlockBenchmarks")
    for side in (old, new):
        say(f"{side.name}: {side.binary}, {versions[side.name]}")
    return (old, new), parts


def main(path, only, rounds, scale):
    """The exit code."""
    most = MOST if rounds is None else rounds
    try:
        sides, parts = check(path, only, most)
    except Unusable as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return USAGE
    # As Ctrl-C: every server is stopped on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rows = []
    try:
        for part in parts:
            configuration, figures = PARTS[part]
            with Rig(configuration) as rig:
                rows += [measure(figure, rig, sides, scale, most) for figure in figures]
    except (SystemExit, OSError) as error:
        # No Redis, for one; 1 would say that a figure is worse.
        rows.append(("the servers", "–", "–", "–", str(error), "–", FAILED))
    print("\n" + markdown(HEAD, rows) + "\n")
    for verdict, what in ((WORSE, f"worse by more than {1 - BOUND:.0%}"), (OPEN, f"undecided after {most} pairs"), (FAILED, "failed")):
        print(f"{what}: {'; '.join(row[0] for row in rows if row[-1] == verdict) or 'nothing'}", flush=True)
    return exit_code(rows)
