"""Limit decisions per second of one sidecar, compared to counters in Redis, and their bottleneck."""

import resource
import statistics
import time

from figures.table import Table
from rig import load
from rig.client import Client, Command, scripts_run
from rig.servers import Rig, Sidecar, print_line, processor_seconds

SUBJECTS = 1000
#: A limit that is never reached here.
LARGE = 1_000_000_000
CONFIGURATION = f"""
services:
  one: {{ limits: [ {{ limit: {LARGE}, per: 1s }} ] }}
  each: {{ limits: [ {{ limit: {LARGE}, per: 1s, per_subject: true }} ] }}
  spent: {{ limits: [ {{ limit: 1, per: 1h }} ] }}
"""
KEY = "key:__rand_int__"
COMMANDS_BOUND = 50
EXPLANATION = f"""\
redis-benchmark has 50 connections and pipelines of 16. *{SUBJECTS:,} keys* belong to as many
[subjects](../start/concepts.md#limits). When calls are *refused*, the sidecar remembers that the
limit is used up."""


#: Uses up the limit whose refusals are measured.
SPENDING = ("LIMIT.TAKE", "spent")


class Kind:
    """One kind of decision, compared to a plain counter."""

    def __init__(self, label: str, interlock: Command, peer: Command, bound: float, names: int | None = None) -> None:
        self.interlock = load.Load(
            f"LIMIT.TAKE, {label}, pipelines of 16", interlock, 1_500_000, pipeline=16, names=names
        )
        self.peer = self.interlock._replace(command=peer)
        self.title = label
        self.bound = bound
        #: Decisions per second in each round.
        self.decisions: list[float] = []
        self.increments: list[float] = []
        #: Per 1,000 decisions: commands counted by the sidecar, and scripts counted by Redis.
        self.commands: list[float] = []
        self.scripts: list[float] = []
        #: Fractions of a core during the decisions.
        self.fractions: dict[str, list[float]] = {"sidecar": [], "Redis": [], "redis-benchmark": []}


def kinds() -> list[Kind]:
    return [
        Kind("one key", ("LIMIT.TAKE", "one"), ("INCRBY", "k", "1"), 0.8),
        Kind(f"{SUBJECTS:,} keys", ("LIMIT.TAKE", "each", "SUBJECT", KEY), ("INCRBY", KEY, "1"), 0.45, names=SUBJECTS),
        Kind("refused", SPENDING, ("INCRBY", "k", "1"), 0.95),
    ]


def measure(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    measured = kinds()
    sidecar = rig.start_sidecar()
    Client(sidecar.port).command(*SPENDING)
    for kind in measured:
        kind.interlock.rate(sidecar.port, scale / 5)
        for number in range(1, rounds + 1):
            print_line(f"measuring {kind.interlock.label}, round {number} of {rounds} …")
            decide(rig, sidecar, kind, scale)
            kind.increments.append(kind.peer.rate(rig.redis_port, scale))
    rig.stop(sidecar.process)
    for kind in measured:
        report(table, kind)


def decide(rig: Rig, sidecar: Sidecar, kind: Kind, scale: int) -> None:
    """Measures one run of decisions and their cost."""
    redis = Client(rig.redis_port)
    commands, scripts = sidecar.redis_commands(), scripts_run(redis)
    busy, begin = processor(rig, sidecar), time.monotonic()
    kind.decisions.append(kind.interlock.rate(sidecar.port, scale))
    length = time.monotonic() - begin
    for name, seconds in processor(rig, sidecar).items():
        kind.fractions[name].append((seconds - busy[name]) / length)
    requests = kind.interlock.requests * scale / 100
    kind.commands.append((sidecar.redis_commands() - commands) * 1000 / requests)
    kind.scripts.append((scripts_run(redis) - scripts) * 1000 / requests)


def processor(rig: Rig, sidecar: Sidecar) -> dict[str, float]:
    """Returns the processor seconds of each process so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "sidecar": sidecar.processor_seconds(),
        "Redis": processor_seconds(rig.redis),
        "redis-benchmark": children.ru_utime + children.ru_stime,
    }


def report(table: Table, kind: Kind) -> None:
    label = kind.title
    table.ratio(f"{label}: LIMIT.TAKE ÷ INCRBY, per second", kind.decisions, kind.increments, kind.bound)
    fractions = [f"{name} {statistics.median(runs):.2f}" for name, runs in kind.fractions.items()]
    table.add(f"{label}: CPU cores used", fractions[0], "; ".join(fractions[1:]), fractions[0].split()[-1])
    commands, scripts = statistics.median(kind.commands), statistics.median(kind.scripts)
    table.add(
        f"{label}: commands to Redis per 1,000 decisions",
        f"{commands:.1f}",
        f"scripts {scripts:.1f}",
        f"{commands:.1f}",
        f"≤ {COMMANDS_BOUND}",
        max(commands, scripts) <= COMMANDS_BOUND,
    )
