"""Calls to a sidecar by redis-py beside calls of another library, sides alternating, with what they cost Redis."""

import statistics
from typing import Callable, NamedTuple

from rig import load
from rig.servers import say


class Side(NamedTuple):
    #: As `callers.py` has it.
    kind: str
    port: int
    #: How many commands Redis has had of it so far; a script is one.
    commands: Callable


def compare(table, what, beside, sides, callers, rounds, seconds, options=()):
    """Rows of calls a second, and of commands to Redis. `sides` are ours and theirs."""
    runs = [], []
    for number in range(1, rounds + 1):
        say(f"{what} and {beside}, {number_of(callers)}, round {number} of {rounds}, {2 * seconds:.0f} s …")
        for side, mine in zip(sides, runs):
            mine.append(run(side, callers, seconds, options))
    ours, theirs = runs
    what = f"{what} by redis-py, {number_of(callers)}"
    table.ratio(f"{what} ÷ {beside}", *([run["calls"] / run["seconds"] for run in mine] for mine in runs))
    commands = [statistics.median(run["commands_per_call"] for run in mine) for mine in runs]
    shares = [sum(run["granted"] for run in mine) / sum(run["calls"] for run in mine) for mine in runs]
    table.add(f"{what}: commands to Redis for each, and share let through", *(
        f"{count:.2f}, {share:.1%}" for count, share in zip(commands, shares)), f"{commands[0]:.2f}")


def number_of(callers):
    return "one caller" if callers == 1 else f"{callers} callers"


def run(side, callers, seconds, options):
    before = side.commands()
    figures = load.callers(side.kind, side.port, callers, seconds, *options)
    figures["commands_per_call"] = (side.commands() - before) / figures["all_calls"]
    return figures
