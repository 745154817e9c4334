"""The accuracy of limits: how exactly they hold, and how much of their capacity they grant. Runs a real Redis, several
sidecars and an open loop of calls.

Each trace is an open loop and is played once. The clock of Redis times its grants.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from figures import oracles, taken
from figures.oracles import Grants
from figures.table import Table
from rig import openloop, traces
from rig.monitor import Commands, Monitor
from rig.servers import Rig, Sidecar, print_line
from rig.traces import SECOND, Trace

SIDECARS = 4
LIMIT = 100
BURST = 10
WINDOW = SECOND
#: Loads, as multiples of the limit.
LOADS = (0.5, 1, 3, 10)
ORACLE_BOUND = 0.97
EXPLANATION = f"""\
{SIDECARS} sidecars share limits of {LIMIT}/s; `gcra` has a burst of {BURST}. *Poisson* calls are independent. The
*adversary* sends bursts around window edges, and retries at the retry time.

*Allowed* is limit × windows + burst, and limit + burst in one window: a counter's life for `fixed`, otherwise any.
The *oracle* is the algorithm in Python, which takes no time. *Unexplained* grants were counted only by Redis or only
by clients."""


class Algorithm(NamedTuple):
    name: str
    #: Grants allowed beyond the limit.
    burst: int
    #: Creates an oracle.
    oracle: Callable
    #: Converts the commands of scripts into grants. Returns them, and the maximum in any window.
    analyze: Callable

    @property
    def service(self) -> str:
        return f"accuracy-{self.name}"


def analyze_fixed(commands: Commands) -> tuple[Grants, int]:
    lives = taken.fixed(commands)
    return [grant for life in lives for grant in life], max(
        (sum(cost for _, cost in life) for life in lives), default=0
    )


def analyze_sliding(commands: Commands) -> tuple[Grants, int]:
    grants = taken.sliding(commands)
    return grants, oracles.maximum_within(grants, WINDOW, closed=True)


def analyze_smooth(commands: Commands) -> tuple[Grants, int]:
    grants = taken.smooth(commands, LIMIT, WINDOW)
    return grants, oracles.maximum_within(grants, WINDOW, closed=False)


ALGORITHMS = (
    Algorithm("fixed", 0, lambda: oracles.Fixed(LIMIT, WINDOW), analyze_fixed),
    Algorithm("sliding", 0, lambda: oracles.Sliding(LIMIT, WINDOW), analyze_sliding),
    Algorithm("gcra", BURST, lambda: oracles.Smooth(LIMIT, WINDOW, BURST), analyze_smooth),
)


def configuration() -> str:
    """Returns the YAML with a service for each algorithm."""
    lines = ["services:"]
    for algorithm in ALGORITHMS:
        burst = f", burst: {algorithm.burst}" if algorithm.burst else ""
        lines.append(
            f"  {algorithm.service}: {{ limits: [ {{ limit: {LIMIT}, per: {WINDOW // SECOND}s, "
            f"algorithm: {algorithm.name}{burst} }} ] }}"
        )
    return "\n".join(lines)


CONFIGURATION = configuration()


class Case(NamedTuple):
    """The result of one trace."""

    algorithm: Algorithm
    kind: str
    load: float
    offered: float
    granted: int
    #: Grants that Redis counted beyond those that clients got.
    unexplained: int
    of_allowed: float
    of_window: float
    #: The maximum in any trailing window ÷ the limit, for every algorithm.
    of_limit: float
    of_oracle: float
    #: The 99th percentile, in milliseconds.
    late: float


def measure(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    # More rounds make longer traces: one long trace is as good as several.
    windows = max(3, 2 * rounds * scale // 100)
    sidecars = rig.start_fleet(SIDECARS)
    cases = []
    for algorithm in ALGORITHMS:
        for load in LOADS:
            for kind, trace in traces_of(load, windows):
                print_line(f"accuracy, {algorithm.name}, {load:g} × the limit, {kind}, {trace.length / SECOND:.0f} s …")
                cases.append(run(rig, sidecars, algorithm, kind, load, trace))
    for sidecar in sidecars:
        rig.stop(sidecar.process)
    report(table, cases)


def traces_of(load: float, windows: int) -> Iterator[tuple[str, Trace]]:
    rate = load * LIMIT * SECOND / WINDOW
    # Leaves time for late calls of the last window.
    length = windows * WINDOW - WINDOW // 20
    yield "Poisson", traces.poisson(rate, length, SIDECARS, seed=f"{load} {windows}")
    yield "adversary", traces.adversary(rate, WINDOW, length, SIDECARS)


def run(rig: Rig, sidecars: Sequence[Sidecar], algorithm: Algorithm, kind: str, load: float, trace: Trace) -> Case:
    monitor = Monitor(rig.redis_port)
    sent = openloop.play(trace, [sidecar.port for sidecar in sidecars], algorithm.service)
    commands = monitor.stop(f"rate:{{{algorithm.service}}}".encode())
    # Waits until this trace no longer counts.
    time.sleep(1.1 * WINDOW / SECOND)
    grants, maximum = algorithm.analyze(commands)
    granted = sum(bool(call.granted) for call in sent)
    late = sorted(call.late for call in sent)
    return Case(
        algorithm,
        kind,
        load,
        len(sent) / (trace.length / SECOND),
        granted,
        sum(cost for _, cost in grants) - granted,
        granted / (LIMIT * math.ceil(trace.length / WINDOW) + algorithm.burst),
        maximum / (LIMIT + algorithm.burst),
        oracles.maximum_within(grants, WINDOW, closed=False) / LIMIT,
        granted / oracles.granted(algorithm.oracle(), [call.at for call in sent]),
        late[len(late) * 99 // 100] / 1e6,
    )


def report(table: Table, cases: Sequence[Case]) -> None:
    for label, ratio in (
        ("grants ÷ allowed, highest", max(case.of_allowed for case in cases)),
        ("most grants in a window ÷ allowed, highest", max(case.of_window for case in cases)),
    ):
        table.add(label, f"{ratio:.3f}", "–", f"{ratio:.3f}", "≤ 1", ratio <= 1)
    fraction = min(case.of_oracle for case in cases)
    table.add(
        "grants ÷ oracle's, lowest",
        f"{fraction:.3f}",
        "–",
        f"{fraction:.3f}",
        f"≥ {ORACLE_BOUND}",
        fraction >= ORACLE_BOUND,
    )
    unexplained = sum(abs(case.unexplained) for case in cases)
    table.add(
        "unexplained grants",
        f"{unexplained} of {sum(case.granted for case in cases):,}",
        "–",
        str(unexplained),
        "0",
        unexplained == 0,
    )
    table.detail(
        "Accuracy of each trace",
        (
            "algorithm",
            "trace",
            "load, × limit",
            "offered/s",
            "granted",
            "granted ÷ allowed",
            "most in a window ÷ allowed",
            "most in any trailing window ÷ limit",
            "granted ÷ oracle's",
            "sent late by, p99, ms",
        ),
        [
            (
                case.algorithm.name,
                case.kind,
                f"{case.load:g}",
                f"{case.offered:,.0f}",
                f"{case.granted:,}",
                ratio_text(case.of_allowed, case.of_allowed <= 1),
                ratio_text(case.of_window, case.of_window <= 1),
                f"{case.of_limit:.3f}",
                ratio_text(case.of_oracle, case.of_oracle >= ORACLE_BOUND),
                f"{case.late:.2f}",
            )
            for case in cases
        ],
    )


def ratio_text(ratio: float, holds: bool) -> str:
    return f"{ratio:.3f}" + ("" if holds else " **NO**")
