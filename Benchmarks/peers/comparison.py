"""Compares a sidecar, called by redis-py, with another library. The sides alternate."""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from figures.table import Table
from rig import load
from rig.load import Figures
from rig.servers import print_line


class Side(NamedTuple):
    #: A kind of `peers.decision_callers`.
    kind: str
    port: int
    #: Returns the commands that Redis has received from this side so far. A script counts as one.
    commands: Callable


def compare(
    table: Table,
    label: str,
    library: str,
    sides: tuple[Side, Side],
    callers: int,
    rounds: int,
    seconds: float,
    options: Sequence[object] = (),
) -> None:
    """Adds rows for calls per second and for commands to Redis. `sides` are Interlock and the peer."""
    interlock: list[Figures] = []
    peer: list[Figures] = []
    for number in range(1, rounds + 1):
        print_line(f"{label} and {library}, {number_of(callers)}, round {number} of {rounds}, {2 * seconds:.0f} s …")
        for side, side_runs in zip(sides, (interlock, peer), strict=True):
            side_runs.append(run(side, callers, seconds, options))
    group = f"{label} ÷ {library}"
    table.ratio(f"{group}: {number_of(callers)}", per_second(interlock), per_second(peer))
    commands, peer_commands = (f"{commands_per_call(runs):.2f}" for runs in (interlock, peer))
    table.add(f"{group}: commands per call", commands, peer_commands, commands)
    granted, peer_granted = (f"{granted_fraction(runs):.1%}" for runs in (interlock, peer))
    if {granted, peer_granted} != {"100.0%"}:
        table.add(f"{group}: calls granted", granted, peer_granted, granted)


def per_second(runs: Sequence[Figures]) -> list[float]:
    return [run["calls"] / run["seconds"] for run in runs]


def commands_per_call(runs: Sequence[Figures]) -> float:
    return statistics.median(run["commands_per_call"] for run in runs)


def granted_fraction(runs: Sequence[Figures]) -> float:
    return sum(run["granted"] for run in runs) / sum(run["calls"] for run in runs)


def number_of(callers: int) -> str:
    return "one caller" if callers == 1 else f"{callers} callers"


def run(side: Side, callers: int, seconds: float, options: Sequence[object]) -> Figures:
    before = side.commands()
    figures = load.callers(side.kind, side.port, callers, seconds, *options)
    figures["commands_per_call"] = (side.commands() - before) / figures["all_calls"]
    return figures
