"""The Python library `limits`, which counts in Redis, compared to a sidecar through redis-py."""

import itertools
import time
from collections.abc import Callable
from typing import NamedTuple

from figures import oracles, taken
from figures.accuracy import WINDOW, analyze_fixed, analyze_sliding
from figures.decisions import LARGE
from figures.oracles import Grants
from figures.table import Table
from peers import comparison
from peers.comparison import Side
from rig import load, traces
from rig.client import Client, scripts_run
from rig.monitor import Commands, Monitor
from rig.servers import Rig, print_line
from rig.traces import SECOND

CALLERS = (1, 8)
SLIDING = 10_000
#: The limit per second for the measurement of exactness.
SHORT = 100
#: Its load, as a multiple of the limit.
LOAD = 3
EXPLANATION = f"""\
Python processes call in a loop, Interlock through redis-py. All calls are granted, unless a row says otherwise.

**limits**: `fixed` is never used up, and `sliding` allows {SLIDING:,}/s, its maximum. For accuracy, {CALLERS[-1]}
processes send the traces above at {LOAD} × a limit of {SHORT}/s."""


class Pair(NamedTuple):
    """A strategy of the library, and Interlock's equivalent algorithm."""

    strategy: str
    algorithm: str
    #: The limit per second for callers at full speed.
    limit: int
    #: Functions that convert the commands of scripts into grants.
    peers_grants: Callable
    own_grants: Callable


PAIRS = (
    Pair(
        "fixed",
        "fixed",
        LARGE,
        lambda commands: list(itertools.chain(*taken.counted(commands, SHORT))),
        lambda commands: analyze_fixed(commands)[0],
    ),
    Pair("moving", "sliding", SLIDING, taken.pushed, lambda commands: analyze_sliding(commands)[0]),
)


def service(algorithm: str) -> str:
    return f"peers-{algorithm}"


def configuration(limit_of: Callable[[Pair], int]) -> str:
    return "services:\n" + "\n".join(
        f"  {service(pair.algorithm)}: "
        f"{{ limits: [ {{ limit: {limit_of(pair)}, per: 1s, algorithm: {pair.algorithm} }} ] }}"
        for pair in PAIRS
    )


CONFIGURATION = configuration(lambda pair: pair.limit)


def measure(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    if why := load.missing_library("limits"):
        table.missing("limits of the Python library limits", why)
        return
    seconds = max(1, 3 * scale / 100)
    redis, sidecar = Client(rig.redis_port), rig.start_sidecar()
    for pair in PAIRS:
        for callers in CALLERS:
            comparison.compare(
                table,
                f"LIMIT.TAKE, {pair.algorithm}",
                f"limits, {pair.strategy} window",
                (
                    Side(f"interlock-{pair.algorithm}", sidecar.port, sidecar.redis_commands),
                    Side(f"limits-{pair.strategy}", rig.redis_port, lambda: scripts_run(redis)),
                ),
                callers,
                rounds,
                seconds,
                ("--limit", pair.limit),
            )
    rig.stop(sidecar.process)
    measure_accuracy(rig, table, rounds, scale)


def measure_accuracy(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    length = max(3, rounds * scale // 100) * WINDOW
    services = rig.folder / "short.yaml"
    services.write_text(configuration(lambda pair: SHORT))
    sidecar = rig.start_sidecar(services)
    for pair in PAIRS:
        own, peers = [], []
        for kind in traces.KINDS:
            print_line(f"limits, {pair.strategy}, {LOAD} × the limit, {kind}, {2 * length / SECOND:.0f} s …")
            own.append(
                play(
                    rig,
                    f"interlock-{pair.algorithm}",
                    sidecar.port,
                    kind,
                    length,
                    f"{{{service(pair.algorithm)}}}",
                    pair.own_grants,
                )
            )
            peers.append(
                play(rig, f"limits-{pair.strategy}", rig.redis_port, kind, length, "LIMITER", pair.peers_grants)
            )
        maximum, peer_maximum = (max(case.maximum for case in cases) for cases in (own, peers))
        # A fixed window may grant twice the limit across an edge.
        bound, holds = ("≤ 1", maximum <= 1) if pair.algorithm == "sliding" else ("–", None)
        table.add(
            f"LIMIT.TAKE, {pair.algorithm}, accuracy: most grants in a trailing window ÷ limit",
            f"{maximum:.2f}",
            f"{peer_maximum:.2f}",
            f"{maximum:.2f}",
            bound,
            holds,
        )
        granted = [sum(case.granted for case in cases) for cases in (own, peers)]
        unexplained = [sum(abs(case.unexplained) for case in cases) for cases in (own, peers)]
        table.add(
            f"LIMIT.TAKE, {pair.algorithm}, accuracy: unexplained grants",
            f"{unexplained[0]} of {granted[0]:,}",
            f"{unexplained[1]} of {granted[1]:,}",
            str(unexplained[0]),
            "0",
            unexplained[0] == 0,
        )
    rig.stop(sidecar.process)


class Case(NamedTuple):
    """The result of one trace."""

    granted: int
    #: The most in any trailing window ÷ the limit.
    maximum: float
    #: Grants that Redis counted beyond those that clients got.
    unexplained: int


def play(
    rig: Rig, name: str, port: int, kind: str, length: int, part: str, grants_of: Callable[[Commands], Grants]
) -> Case:
    monitor = Monitor(rig.redis_port)
    figures = load.callers(
        name,
        port,
        CALLERS[-1],
        length / SECOND,
        "--limit",
        SHORT,
        "--trace",
        kind,
        "--rate",
        LOAD * SHORT,
        "--window",
        WINDOW,
        "--length",
        length,
    )
    grants = grants_of(monitor.stop(part.encode()))
    # Waits until this trace no longer counts.
    time.sleep(1.1 * WINDOW / SECOND)
    return Case(
        figures["granted"],
        oracles.maximum_within(grants, WINDOW, closed=False) / SHORT,
        sum(cost for _, cost in grants) - figures["granted"],
    )
