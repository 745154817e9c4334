"""One round of an abuse: witnesses that are watched before and while it goes on."""

import multiprocessing
import os
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

from abuses.target import TAKEN, Case, Target
from rig.servers import say
from rig.witness import Latencies, Port, caller, holder, latencies, prober

#: The sidecar has the first core for itself; everything else shares the others.
CORE = 0
#: Limits of another client's p99: `MOST` ms, and `FACTOR` times its p99 before or `SMALL` ms, whichever is more.
MOST, FACTOR, SMALL = 20.0, 5, 5.0


class Round(NamedTuple):
    before: Latencies
    during: Latencies
    #: Of the client of Redis.
    redis: Latencies
    probes: Latencies
    errors: list[str]


def cores() -> tuple[Sequence[object], set[int]]:
    """The words that start the sidecar on its core, and the other cores."""
    mine = os.sched_getaffinity(0)
    if len(mine) < 2:
        return (), mine
    first = sorted(mine)[CORE]
    return ("taskset", "--cpu-list", first), mine - {first}


def run(case: Case, target: Target, orders: Connection) -> None:
    """Runs in its own process until it is told to stop."""
    # Witnesses that are due go before the abuser, which has a core to share with them.
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
    """The most milliseconds of another client's p99, which was `before`."""
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
    # The abuse goes on until the witnesses have been heard.
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
