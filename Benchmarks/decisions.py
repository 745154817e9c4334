"""How many decisions a second one sidecar gives, beside Redis that only counts, and what bounds them."""

import resource
import statistics
import time

import load
from rig import Client, processor_seconds, say, scripts_run

SUBJECTS = 1000
#: More than is ever taken here.
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
**Limits**: redis-benchmark with 50 connections and pipelines of 16, against one sidecar and against Redis itself. *One key* is a limit of
the service beside `INCRBY` of one key, *{SUBJECTS:,} keys* a limit of each subject beside `INCRBY` of as many keys, *refused* a limit that has
been reached, whose refusal the sidecar remembers. The shares of a core tell what bounds a figure: who has a whole one, or whether all
share what there is."""


class Kind:
    """Decisions of one kind, beside plain counting."""

    def __init__(self, what, ours, theirs, bound, names=None):
        self.what = what
        self.ours, self.theirs = ours, theirs
        self.bound = bound
        #: How many names redis-benchmark chooses from.
        self.names = names
        #: Decisions and increments a second, of each round.
        self.decisions, self.increments = [], []
        #: Commands that the sidecar counted and scripts that Redis counted, for 1,000 decisions.
        self.commands, self.scripts = [], []
        #: Shares of a core, while decisions were asked for.
        self.shares = {"sidecar": [], "Redis": [], "redis-benchmark": []}


def measure(rig, table, rounds, scale):
    kinds = [
        Kind("one key", ["LIMIT.TAKE", "one"], ["INCRBY", "k", "1"], 0.8),
        Kind(f"{SUBJECTS:,} keys", ["LIMIT.TAKE", "each", "SUBJECT", KEY], ["INCRBY", KEY, "1"], 0.8, names=SUBJECTS),
        Kind("refused", ["LIMIT.TAKE", "spent"], ["INCRBY", "k", "1"], 0.9),
    ]
    sidecar = rig.start_sidecar()
    Client(sidecar.port).command("LIMIT.TAKE", "spent")
    requests = 1_500_000 * scale // 100
    for kind in kinds:
        options = dict(pipeline=16, names=kind.names)
        load.redis_benchmark(sidecar.port, kind.ours, requests=requests // 5, **options)
        for number in range(1, rounds + 1):
            say(f"measuring LIMIT.TAKE, {kind.what}, round {number} of {rounds} …")
            decide(rig, sidecar, kind, requests, options)
            kind.increments.append(load.redis_benchmark(rig.redis_port, kind.theirs, requests=requests, **options))
    rig.stop(sidecar.process)
    for kind in kinds:
        report(table, kind)


def decide(rig, sidecar, kind, requests, options):
    """One run of decisions, with what they cost."""
    redis = Client(rig.redis_port)
    commands, scripts = sidecar.redis_commands(), scripts_run(redis)
    busy, begin = processor(rig, sidecar), time.monotonic()
    kind.decisions.append(load.redis_benchmark(sidecar.port, kind.ours, requests=requests, **options))
    length = time.monotonic() - begin
    for name, seconds in processor(rig, sidecar).items():
        kind.shares[name].append((seconds - busy[name]) / length)
    kind.commands.append((sidecar.redis_commands() - commands) * 1000 / requests)
    kind.scripts.append((scripts_run(redis) - scripts) * 1000 / requests)


def processor(rig, sidecar):
    """Seconds of it that each has had so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"sidecar": sidecar.processor_seconds(), "Redis": processor_seconds(rig.redis),
            "redis-benchmark": children.ru_utime + children.ru_stime}


def report(table, kind):
    what = f"LIMIT.TAKE, {kind.what}, pipelines of 16"
    table.ratio(f"{what} ÷ INCRBY", kind.decisions, kind.increments, kind.bound)
    shares = [f"{name} {statistics.median(runs):.2f}" for name, runs in kind.shares.items()]
    table.add(f"{what}: shares of a core", shares[0], "; ".join(shares[1:]), shares[0].split()[-1])
    commands, scripts = statistics.median(kind.commands), statistics.median(kind.scripts)
    table.add(f"{what}: commands to Redis for 1,000 decisions", f"{commands:.1f}", f"scripts that Redis counted {scripts:.1f}",
              f"{commands:.1f}", f"≤ {COMMANDS_BOUND}", max(commands, scripts) <= COMMANDS_BOUND)
