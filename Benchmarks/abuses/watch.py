"""One round of an abuse: witnesses are measured before it and during it."""

import multiprocessing
import os
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

from abuses.target import TAKEN, Case, Target
from rig.servers import print_line
from rig.witness import Latencies, Port, caller, holder, latencies, prober

#: The sidecar has the first core to itself; everything else shares the others.
CORE = 0
#: The bound of another client's p99: `FACTOR` times its p99 before, at least `MIN_BOUND` and at most `MAX_BOUND` ms.
MAX_BOUND, FACTOR, MIN_BOUND = 20.0, 5, 5.0


class Round(NamedTuple):
    before: Latencies
    during: Latencies
    #: The latencies of a client of Redis itself.
    redis: Latencies
    probes: Latencies
    errors: list[str]


def cores() -> tuple[Sequence[object], set[int]]:
    """Returns the command prefix that starts the sidecar on its core, and the other cores."""
    available = os.sched_getaffinity(0)
    if len(available) < 2:
        return (), available
    first = sorted(available)[CORE]
    return ("taskset", "--cpu-list", first), available - {first}


def run(case: Case, target: Target, orders: Connection) -> None:
    """Runs in its own process until it is stopped."""
    # Due witnesses run before the abuser, which shares a core with them.
    os.setpriority(os.PRIO_PROCESS, 0, 10)
    try:
        for number, _ in enumerate(case.abuse(target)):
            if number == 0:
                orders.send("")
            if orders.poll(0):
                break
        orders.send("")
    except (OSError, RuntimeError) as error:
        orders.send(repr(error))
        orders.send(repr(error))


def bound(before: float) -> float:
    """Returns the limit of another client's p99 in milliseconds, given its p99 `before`."""
    return min(MAX_BOUND, max(FACTOR * before, MIN_BOUND))


def watch(case: Case, target: Target, redis_port: int, seconds: float) -> Round:
    other = caller(target.witness, "LIMIT.TAKE", TAKEN)
    redis = caller(Port(redis_port), "GET", "nothing")
    probes, lease = prober(target.web), holder(target.witness)
    time.sleep(0.4)
    begin = time.monotonic_ns()
    time.sleep(seconds)
    quiet = time.monotonic_ns()
    processes = multiprocessing.get_context("fork")
    parent_end, child_end = processes.Pipe()
    abuser = processes.Process(target=run, args=(case, target, child_end), daemon=True)
    abuser.start()
    errors_of_abuse = {parent_end.recv()}
    middle = time.monotonic_ns()
    time.sleep(seconds)
    end = time.monotonic_ns()
    # The abuse continues until the witnesses have reported.
    reports = [witness.stop() for witness in (other, redis, probes, lease)]
    parent_end.send("stop")
    if parent_end.poll(15):
        errors_of_abuse.add(parent_end.recv())
    abuser.kill()
    abuser.join()
    for message in errors_of_abuse - {""}:
        print_line(f"  {case.name}: the abuse ended early: {message}")
    return Round(
        latencies(reports[0][0], begin, quiet),
        latencies(reports[0][0], middle, end),
        latencies(reports[1][0], middle, end),
        latencies(reports[2][0], middle, end),
        [
            f"{client}: {error}"
            for client, (_, errors) in zip(
                ("the caller", "Redis's client", "the probes", "the holder"), reports, strict=True
            )
            for error in errors
        ],
    )
