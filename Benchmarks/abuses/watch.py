"""One round of an abuse: witnesses are measured before it and during it."""

import multiprocessing
import os
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

from abuses.target import TAKEN, Case, Target
from rig.servers import say
from rig.witness import Latencies, Port, caller, holder, latencies, prober

#: The sidecar has the first core to itself; everything else shares the others.
CORE = 0
#: Limits of another client's p99: `MOST` ms, and `FACTOR` times its p99 before or `SMALL` ms, whichever is more.
MOST, FACTOR, SMALL = 20.0, 5, 5.0


class Round(NamedTuple):
    before: Latencies
    during: Latencies
    #: The latencies of a client of Redis itself.
    redis: Latencies
    probes: Latencies
    errors: list[str]


def cores() -> tuple[Sequence[object], set[int]]:
    """Returns the command prefix that starts the sidecar on its core, and the other cores."""
    mine = os.sched_getaffinity(0)
    if len(mine) < 2:
        return (), mine
    first = sorted(mine)[CORE]
    return ("taskset", "--cpu-list", first), mine - {first}


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
    return min(MOST, max(FACTOR * before, SMALL))


def watch(case: Case, target: Target, redis_port: int, seconds: float) -> Round:
    other = caller(target.witness, "LIMIT.TAKE", TAKEN)
    redis = caller(Port(redis_port), "GET", "nothing")
    probes, lease = prober(target.web), holder(target.witness)
    time.sleep(0.4)
    begin = time.monotonic_ns()
    time.sleep(seconds)
    quiet = time.monotonic_ns()
    processes = multiprocessing.get_context("fork")
    ours, theirs = processes.Pipe()
    abuser = processes.Process(target=run, args=(case, target, theirs), daemon=True)
    abuser.start()
    troubles = {ours.recv()}
    middle = time.monotonic_ns()
    time.sleep(seconds)
    end = time.monotonic_ns()
    # The abuse continues until the witnesses have reported.
    heard = [witness.stop() for witness in (other, redis, probes, lease)]
    ours.send("stop")
    if ours.poll(15):
        troubles.add(ours.recv())
    abuser.kill()
    abuser.join()
    for trouble in troubles - {""}:
        say(f"  {case.name}: the abuse ended early: {trouble}")
    return Round(
        latencies(heard[0][0], begin, quiet),
        latencies(heard[0][0], middle, end),
        latencies(heard[1][0], middle, end),
        latencies(heard[2][0], middle, end),
        [
            f"{who}: {error}"
            for who, (_, errors) in zip(("the caller", "Redis' client", "the probes", "the holder"), heard, strict=True)
            for error in errors
        ],
    )
