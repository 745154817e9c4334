"""Whether limits hold to the call, and how much of what they allow they grant: real Redis, several sidecars, calls that
come whether or not others were answered."""

import math
import time
from typing import Callable, NamedTuple

from figures import oracles, taken
from rig import openloop, traces
from rig.monitor import Monitor
from rig.servers import say
from rig.traces import SECOND

SIDECARS = 4
LIMIT = 100
BURST = 10
WINDOW = SECOND
#: Times the limit.
LOADS = (0.5, 1, 3, 10)
ORACLE_BOUND = 0.97
EXPLANATION = f"""\
**Accuracy**: {SIDECARS} sidecars, a limit of {LIMIT} a second, and a burst of {BURST} for `gcra`; calls are sent when a trace says so, whatever has been
answered by then. *Poisson* calls know nothing of each other. The *adversary* knows when windows begin: it sends bursts shortly before and
after their edges, and some refused calls again exactly when they were told to come. A grant has the time of Redis, by `MONITOR`.
*Allowed* is the limit times the windows that a trace lasts, the last one counted whole, and the burst once. *Window* is the most that
was granted in any window, ÷ limit and burst: any trailing one for `sliding`, its ends included, and for `gcra`, without its beginning; for
`fixed` any life of the counter. *Trailing* is the most in any trailing window ÷ the limit alone. The *oracle* is the same algorithm in
Python, asked about the same calls at the times when they were sent: nothing takes it time. Each trace is played once, and lasts the longer
the more rounds there are."""


class Algorithm(NamedTuple):
    name: str
    #: What may be granted beyond the limit.
    burst: int
    #: Makes one.
    oracle: Callable
    #: From the commands that scripts ran to the grants, and the most of them in any window.
    judge: Callable

    @property
    def service(self):
        return f"accuracy-{self.name}"

    @property
    def title(self):
        return f"{self.name}, {LIMIT} per {WINDOW // SECOND} s" + (f", burst {self.burst}" if self.burst else "")


def judge_fixed(commands):
    lives = taken.fixed(commands)
    return [grant for life in lives for grant in life], max((sum(cost for _, cost in life) for life in lives), default=0)


def judge_sliding(commands):
    grants = taken.sliding(commands)
    return grants, oracles.most_within(grants, WINDOW, closed=True)


def judge_smooth(commands):
    grants = taken.smooth(commands, LIMIT, WINDOW)
    return grants, oracles.most_within(grants, WINDOW, closed=False)


ALGORITHMS = (
    Algorithm("fixed", 0, lambda: oracles.Fixed(LIMIT, WINDOW), judge_fixed),
    Algorithm("sliding", 0, lambda: oracles.Sliding(LIMIT, WINDOW), judge_sliding),
    Algorithm("gcra", BURST, lambda: oracles.Smooth(LIMIT, WINDOW, BURST), judge_smooth),
)


def configuration():
    """A service for each algorithm."""
    lines = ["services:"]
    for algorithm in ALGORITHMS:
        burst = f", burst: {algorithm.burst}" if algorithm.burst else ""
        lines.append(f"  {algorithm.service}: {{ limits: [ {{ limit: {LIMIT}, per: {WINDOW // SECOND}s, "
                     f"algorithm: {algorithm.name}{burst} }} ] }}")
    return "\n".join(lines)


CONFIGURATION = configuration()


class Case(NamedTuple):
    """What came of one trace."""

    algorithm: Algorithm
    kind: str
    load: float
    offered: float
    granted: int
    #: How many grants Redis counted beyond those that clients had.
    unexplained: int
    of_allowed: float
    of_window: float
    #: The most in any trailing window ÷ the limit, whatever the algorithm promises.
    of_limit: float
    of_oracle: float
    #: Milliseconds, of the 99th of a hundred.
    late: float


def measure(rig, table, rounds, scale):
    # More rounds make traces longer: one case is as good as several.
    windows = max(3, 2 * rounds * scale // 100)
    sidecars = rig.start_fleet(SIDECARS)
    cases = []
    for algorithm in ALGORITHMS:
        for load in LOADS:
            for kind, trace in traces_of(load, windows):
                say(f"accuracy, {algorithm.name}, {load:g} × the limit, {kind}, {trace.length / SECOND:.0f} s …")
                cases.append(run(rig, sidecars, algorithm, kind, load, trace))
    for sidecar in sidecars:
        rig.stop(sidecar.process)
    report(table, cases)


def traces_of(load, windows):
    rate = load * LIMIT * SECOND / WINDOW
    # The last calls are in the last window still when they come a little late.
    length = windows * WINDOW - WINDOW // 20
    yield "Poisson", traces.poisson(rate, length, SIDECARS, seed=f"{load} {windows}")
    yield "adversary", traces.adversary(rate, WINDOW, length, SIDECARS)


def run(rig, sidecars, algorithm, kind, load, trace):
    monitor = Monitor(rig.redis_port)
    sent = openloop.play(trace, [sidecar.port for sidecar in sidecars], algorithm.service)
    commands = monitor.stop(f"rate:{{{algorithm.service}}}".encode())
    # Until nothing of this trace counts any more.
    time.sleep(1.1 * WINDOW / SECOND)
    grants, most = algorithm.judge(commands)
    granted = sum(call.granted for call in sent)
    late = sorted(call.late for call in sent)
    return Case(
        algorithm, kind, load, len(sent) / (trace.length / SECOND), granted,
        sum(cost for _, cost in grants) - granted,
        granted / (LIMIT * math.ceil(trace.length / WINDOW) + algorithm.burst),
        most / (LIMIT + algorithm.burst), oracles.most_within(grants, WINDOW, closed=False) / LIMIT,
        granted / oracles.granted(algorithm.oracle(), [call.at for call in sent]),
        late[len(late) * 99 // 100] / 1e6)


def report(table, cases):
    for algorithm in ALGORITHMS:
        mine = [case for case in cases if case.algorithm is algorithm]
        what = f"accuracy, {algorithm.title}"
        total = max(case.of_allowed for case in mine)
        table.add(f"{what}: granted ÷ allowed, at most", f"{total:.3f}", "–", f"{total:.3f}", "≤ 1", total <= 1)
        most = max(case.of_window for case in mine)
        beyond = " and burst" if algorithm.burst else ""
        table.add(f"{what}: most in any window ÷ limit{beyond}", f"{most:.3f}", "–", f"{most:.3f}", "≤ 1", most <= 1)
        share = min(case.of_oracle for case in mine)
        table.add(f"{what}: granted ÷ what the oracle grants, at least", f"{share:.3f}", "–", f"{share:.3f}",
                  f"≥ {ORACLE_BOUND}", share >= ORACLE_BOUND)
    unexplained = sum(abs(case.unexplained) for case in cases)
    table.add("accuracy: grants that Redis and the clients count differently",
              f"{unexplained} of {sum(case.granted for case in cases):,}", "–", str(unexplained), "0", unexplained == 0)
    table.detail(
        "Accuracy of each trace",
        ("algorithm", "trace", "load", "offered", "granted", "÷ allowed", "window", "trailing", "÷ oracle", "sent late, p99"),
        [(case.algorithm.name, case.kind, f"{case.load:g} ×", f"{case.offered:,.0f}/s", f"{case.granted:,}",
          judged(case.of_allowed, case.of_allowed <= 1), judged(case.of_window, case.of_window <= 1),
          f"{case.of_limit:.3f}", judged(case.of_oracle, case.of_oracle >= ORACLE_BOUND), f"{case.late:.2f} ms")
         for case in cases])


def judged(ratio, holds):
    return f"{ratio:.3f}" + ("" if holds else " **NO**")
