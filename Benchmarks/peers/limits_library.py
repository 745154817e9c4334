"""Limits of the Python library `limits`, with its counts in Redis, beside those of a sidecar asked by redis-py."""

import time
from typing import Callable, NamedTuple

from figures import oracles, taken
from figures.accuracy import WINDOW, judge_fixed, judge_sliding
from figures.decisions import LARGE
from peers import beside
from peers.beside import Side
from rig import load, traces
from rig.client import Client, scripts_run
from rig.monitor import Monitor
from rig.servers import say
from rig.traces import SECOND

CALLERS = (1, 8)
SLIDING = 10_000
#: Per second, of the limits that are asked for more than they allow.
SHORT = 100
#: Times the limit, of those.
LOAD = 3
EXPLANATION = f"""\
**The library `limits`**: Python processes ask for one decision after the other, those of the library Redis itself, those of Interlock
one sidecar by redis-py. Of a fixed window more is allowed than is ever asked for, of the other one {SLIDING:,} a second, the most that
`sliding` takes. How exact each is, is measured apart, with a limit of {SHORT} a second, {CALLERS[-1]} processes and the traces of
*Accuracy* at {LOAD} × the limit, of which no refused call comes back: the most that was granted in any trailing second by Redis' clock,
÷ the limit. A fixed window may let twice the limit through across its edge; a moving one may not. The library's processes read their
own clocks, a sidecar's script that of Redis."""


class Pair(NamedTuple):
    """A strategy of the library, and the algorithm that does the same."""

    strategy: str
    algorithm: str
    #: Per second, for those who ask as fast as they can.
    limit: int
    #: From the commands that scripts ran to the grants.
    peers_grants: Callable
    own_grants: Callable


PAIRS = (
    Pair("fixed", "fixed", LARGE, lambda commands: sum(taken.counted(commands, SHORT), []), lambda commands: judge_fixed(commands)[0]),
    Pair("moving", "sliding", SLIDING, taken.pushed, lambda commands: judge_sliding(commands)[0]),
)


def service(algorithm):
    return f"peers-{algorithm}"


def configuration(limit_of):
    return "services:\n" + "\n".join(
        f"  {service(pair.algorithm)}: {{ limits: [ {{ limit: {limit_of(pair)}, per: 1s, algorithm: {pair.algorithm} }} ] }}"
        for pair in PAIRS)


CONFIGURATION = configuration(lambda pair: pair.limit)


def measure(rig, table, rounds, scale):
    if why := load.lacks("limits"):
        return table.missing("limits of the Python library limits", why)
    seconds = max(1, 3 * scale / 100)
    redis, sidecar = Client(rig.redis_port), rig.start_sidecar()
    for pair in PAIRS:
        for callers in CALLERS:
            beside.compare(
                table, f"LIMIT.TAKE, {pair.algorithm}", f"the library limits, {pair.strategy} window",
                (Side(f"interlock-{pair.algorithm}", sidecar.port, sidecar.redis_commands),
                 Side(f"limits-{pair.strategy}", rig.redis_port, lambda: scripts_run(redis))),
                callers, rounds, seconds, ("--limit", pair.limit))
    rig.stop(sidecar.process)
    measure_accuracy(rig, table, rounds, scale)


def measure_accuracy(rig, table, rounds, scale):
    length = max(3, rounds * scale // 100) * WINDOW
    services = rig.folder / "short.yaml"
    services.write_text(configuration(lambda pair: SHORT))
    sidecar = rig.start_sidecar(services)
    for pair in PAIRS:
        own, peers = [], []
        for kind in traces.KINDS:
            say(f"limits, {pair.strategy}, {LOAD} × the limit, {kind}, {2 * length / SECOND:.0f} s …")
            own.append(play(rig, f"interlock-{pair.algorithm}", sidecar.port, kind, length,
                            f"{{{service(pair.algorithm)}}}", pair.own_grants))
            peers.append(play(rig, f"limits-{pair.strategy}", rig.redis_port, kind, length, "LIMITER", pair.peers_grants))
        most, beside_it = (max(case.most for case in cases) for cases in (own, peers))
        # Twice across an edge is what a fixed window promises.
        holds = ("≤ 1", most <= 1) if pair.algorithm == "sliding" else ()
        table.add(f"LIMIT.TAKE, {pair.algorithm}, by redis-py: most in any trailing second ÷ limit", f"{most:.2f}",
                  f"the library limits, {pair.strategy} window {beside_it:.2f}", f"{most:.2f}", *holds)
        granted = [sum(case.granted for case in cases) for cases in (own, peers)]
        unexplained = [sum(abs(case.unexplained) for case in cases) for cases in (own, peers)]
        table.add(f"LIMIT.TAKE, {pair.algorithm}, by redis-py: grants that Redis and the clients count differently", *(
            f"{odd} of {count:,}" for odd, count in zip(unexplained, granted)), str(unexplained[0]), "0", unexplained[0] == 0)
    rig.stop(sidecar.process)


class Case(NamedTuple):
    """What came of one trace."""

    granted: int
    #: The most in any trailing window ÷ the limit.
    most: float
    #: How many grants Redis counted beyond those that clients had.
    unexplained: int


def play(rig, name, port, kind, length, part, grants_of):
    monitor = Monitor(rig.redis_port)
    figures = load.callers(
        name, port, CALLERS[-1], length / SECOND, "--limit", SHORT, "--trace", kind, "--rate", LOAD * SHORT, "--window", WINDOW,
        "--length", length)
    grants = grants_of(monitor.stop(part.encode()))
    # Until nothing of this trace counts any more.
    time.sleep(1.1 * WINDOW / SECOND)
    return Case(figures["granted"], oracles.most_within(grants, WINDOW, closed=False) / SHORT,
                sum(cost for _, cost in grants) - figures["granted"])
