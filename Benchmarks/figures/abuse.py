"""Abusive clients, and their effect on others: latency, leases, and the liveness probe."""

import os
import pathlib
import statistics
from collections.abc import Sequence

from abuses import bodies, commands, descriptors, frames, logs, quotas, requests, upkeep
from abuses.target import Case, start
from abuses.trial import Stage, Trial
from abuses.watch import FACTOR, MAX_BOUND, MIN_BOUND, Round, bound, cores, watch
from figures.table import Table
from rig.connections import raise_open_files
from rig.servers import BINARY, Rig, print_line
from rig.witness import PACE, PROBE_PACE, PROBE_TIMEOUT

CASES = [*requests.CASES, *frames.CASES, *commands.CASES, *upkeep.CASES]
TRIALS = [*quotas.TRIALS, *descriptors.TRIALS, *bodies.TRIALS, *logs.TRIALS]
#: The seconds for which witnesses are measured before and during each abuse.
WATCH = 2
#: The rig's configuration. The sidecars have their own.
CONFIGURATION = ""
EXPLANATION = f"""\
Some clients repeat one thing for {WATCH} seconds. The sidecar has 404 services and a core of its own; everything else
shares the other cores. Other clients send `LIMIT.TAKE` every {PACE * 1000:.0f} ms, keep a linked lease, and probe
`/healthz` every {PROBE_PACE * 1000:.0f} ms over a new connection. Their p99 may rise to {FACTOR} times that before
the abuse, or {MIN_BOUND:.0f} ms if that is more, and at most {MAX_BOUND:.0f} ms. A probe is answered within
{PROBE_TIMEOUT:.0f} s; no lease is lost and no call refused. A client of Redis shows what the machine adds."""


def measure(
    rig: Rig,
    table: Table,
    rounds: int,
    scale: int,
    cases: Sequence[Case] = CASES,
    trials: Sequence[Trial] = TRIALS,
    binary: pathlib.Path = BINARY,
) -> None:
    raise_open_files()
    before, others = cores()
    # Everything started from here on stays off the sidecar's core.
    available = os.sched_getaffinity(0)
    os.sched_setaffinity(0, others)
    os.sched_setaffinity(rig.redis.pid, others)
    try:
        for case in cases:
            target = start(rig, binary, case.setup, before)
            report(table, case, [watch(case, target, rig.redis_port, WATCH * scale / 100) for _ in range(rounds)])
            rig.stop(target.process)
        for trial in trials:
            for finding in trial.run(Stage(rig, binary, before, scale)):
                label = f"{trial.label}: {finding.label}"
                table.add(label, finding.figure, finding.comparison, finding.figure, finding.bound, finding.holds)
    finally:
        os.sched_setaffinity(0, available)


def report(table: Table, case: Case, results: Sequence[Round]) -> None:
    before, p50, p99, redis = (
        statistics.median(values)
        for values in (
            [result.before.p99 for result in results],
            [result.during.p50 for result in results],
            [result.during.p99 for result in results],
            [result.redis.p99 for result in results],
        )
    )
    maximum = max(result.during.maximum for result in results)
    table.add(
        f"{case.label}: p99 of another client's `LIMIT.TAKE`",
        f"{p99:.2f} ms; p50 {p50:.2f}, longest {maximum:.0f}",
        f"before {before:.2f} ms; client of Redis {redis:.2f}",
        f"{p99:.2f} ms",
        f"≤ {bound(before):.1f} ms",
        p99 <= bound(before),
    )
    slowest = max(result.probes.maximum for result in results)
    errors = [error for result in results for error in result.errors]
    for error in sorted(set(errors))[:3]:
        print_line(f"  {case.name}: of the others, {error} ({errors.count(error)} times)")
    table.add(
        f"{case.label}: slowest probe; others' errors and lost leases",
        f"{slowest:.0f} ms; {len(errors)}",
        "–",
        f"{slowest:.0f} ms; {len(errors)}",
        f"≤ {PROBE_TIMEOUT * 1000:.0f} ms; 0",
        slowest <= PROBE_TIMEOUT * 1000 and not errors,
    )
