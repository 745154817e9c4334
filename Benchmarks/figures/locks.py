"""Locks: hand-over through two sidecars and through other libraries, cycles of the embedded library, linked leases.

The clients of a hand-over are connections of one process, half at each sidecar. Linked leases are measured once,
together with the connections that they need.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from figures.table import Table
from rig import load
from rig.client import Client, scripts_run
from rig.load import Figures
from rig.servers import Rig, Sidecar, print_line

#: Clients at each of the two sidecars.
SIZES = (1, 16, 200)
#: The size at which the peers are measured.
PEER_SIZE = 16
#: The peer that hands a lock to a waiter. With the others, the last holder may acquire it again immediately.
FAIR_PEER = "python-redis-lock"
#: Concurrent callers of the embedded library.
LIBRARY_CALLERS = 64
LEASES = 10_000
#: Milliseconds.
TTL = 10_000
EXPLANATION = """\
All clients contend for one lock, and release it immediately. A *cycle* is an acquire and a release; in a *lap*, each
waiter gets the lock once. Interlock's clients are connections to two sidecars. Other libraries' are processes, whose
last holder may win again before the others notice."""


def measure(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    measure_handover(rig, table, rounds, scale)
    measure_library(rig, table, rounds, scale)
    measure_linked(rig, table, scale)


def measure_handover(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    sidecars = rig.start_fleet(2)
    seconds = max(1, 5 * scale / 100)
    interlock: dict[int, list[Figures]] = {size: [] for size in SIZES}
    peers: dict[str, list[Figures]] = {library: [] for library in load.PEERS}
    for number in range(1, rounds + 1):
        for size in SIZES:
            print_line(f"hand-over, {size}+{size} waiters, round {number} of {rounds}, {seconds:.0f} s …")
            interlock[size].append(run_handover(rig, sidecars, size, f"handover-{size}-{number}", seconds))
        for library in load.PEERS:
            print_line(
                f"hand-over, {library}, {2 * PEER_SIZE} processes, round {number} of {rounds}, {seconds:.0f} s …"
            )
            peers[library].append(load.peer(library, rig.redis_port, 2 * PEER_SIZE, seconds))
    for sidecar in sidecars:
        rig.stop(sidecar.process)
    report_speed(table, interlock[PEER_SIZE], peers)
    report_times(table, interlock, peers)
    report_commands(table, interlock)
    report_safety(table, [figures for runs in interlock.values() for figures in runs])


def run_handover(rig: Rig, sidecars: Sequence[Sidecar], size: int, lock: str, seconds: float) -> Figures:
    """Returns the figures of one run, with the commands to Redis per cycle."""
    redis = Client(rig.redis_port)
    commands_before, scripts_before = commands_of(sidecars), scripts_run(redis)
    addresses = [word for sidecar in sidecars for word in ("--sidecar", sidecar.address)]
    figures = load.run_generator("handover", *addresses, "--waiters", size, "--lock", lock, seconds=seconds)
    figures["commands_per_cycle"] = (commands_of(sidecars) - commands_before) / figures["all_cycles"]
    figures["scripts_per_cycle"] = (scripts_run(redis) - scripts_before) / figures["all_cycles"]
    figures["longest_wait_share"] = figures["longest_wait_ms"] / (2 * size * figures["mean_cycle_ms"])
    return figures


def commands_of(sidecars: Sequence[Sidecar]) -> int:
    return sum(sidecar.redis_commands() for sidecar in sidecars)


def median(runs: Sequence[Figures], key: str) -> float:
    return statistics.median(figures[key] for figures in runs)


def per_second(runs: Sequence[Figures], key: str = "cycles") -> list[float]:
    return [figures[key] / figures["seconds"] for figures in runs]


def report_speed(table: Table, interlock: Sequence[Figures], peers: Mapping[str, Sequence[Figures]]) -> None:
    label = f"hand-over, {PEER_SIZE}+{PEER_SIZE} waiters: cycles per second"
    table.ratio(f"{label} ÷ {FAIR_PEER}, the fastest fair peer", per_second(interlock), per_second(peers[FAIR_PEER]), 2)
    for key, which in (("cycles", ""), ("to_another", " to another client")):
        rates = {library: per_second(runs, key) for library, runs in peers.items()}
        best = [max(of_round) for of_round in zip(*rates.values(), strict=True)]
        ratio = statistics.median(a / b for a, b in zip(per_second(interlock, key), best, strict=True))
        table.add(
            f"{label}{which} ÷ fastest peer",
            f"{statistics.median(per_second(interlock, key)):,.0f}/s",
            "; ".join(f"{library} {statistics.median(rate):,.0f}/s" for library, rate in rates.items()),
            f"{ratio:.2f}",
        )


def report_times(
    table: Table, interlock: Mapping[int, Sequence[Figures]], peers: Mapping[str, Sequence[Figures]]
) -> None:
    for size in SIZES[1:]:
        runs, shown_peers = interlock[size], peers if size == PEER_SIZE else {}
        label = f"hand-over, {size}+{size} waiters"
        if not shown_peers:
            rate = statistics.median(per_second(runs))
            table.add(f"{label}: cycles per second", f"{rate:,.0f}/s", "–", f"{rate:,.0f}/s")
        late = median(runs, "p99_ms")
        table.add(
            f"{label}: release to next grant, p50/p99, ms",
            f"{median(runs, 'p50_ms'):.2f}/{late:.2f}",
            others(shown_peers, lambda peer: f"{median(peer, 'p50_ms'):.2f}/{median(peer, 'p99_ms'):.2f}"),
            f"{late:.2f}",
            "p99 ≤ 5",
            late <= 5,
        )
        fraction = median(runs, "longest_wait_share")
        table.add(
            f"{label}: longest wait",
            f"{median(runs, 'longest_wait_ms'):,.0f} ms, {fraction:.2f} laps",
            others(shown_peers, lambda peer: f"{median(peer, 'longest_wait_ms'):,.0f} ms"),
            f"{fraction:.2f}",
            "≤ 1.5 laps",
            fraction <= 1.5,
        )


def others(peers: Mapping[str, Sequence[Figures]], text: Callable[[Sequence[Figures]], str]) -> str:
    return "; ".join(f"{library} {text(runs)}" for library, runs in peers.items()) or "–"


def report_commands(table: Table, interlock: Mapping[int, Sequence[Figures]]) -> None:
    commands, scripts = (
        [median(interlock[size], key) for size in SIZES] for key in ("commands_per_cycle", "scripts_per_cycle")
    )
    text, script_text = ("/".join(f"{figure:.2f}" for figure in figures) for figures in (commands, scripts))
    table.add(
        f"hand-over, all sizes: commands to Redis per cycle, {'/'.join(f'{size}+{size}' for size in SIZES)} waiters",
        text,
        f"scripts {script_text}",
        text,
        "≤ 3",
        max(*commands, *scripts) <= 3,
    )


def report_safety(table: Table, runs: Sequence[Figures]) -> None:
    wrong = sum(figures["violations"] + (not figures["fences_in_order"]) for figures in runs)
    cycles = sum(figures["all_cycles"] for figures in runs)
    table.add(
        "hand-over, all sizes: two holders, or fences out of order",
        f"{wrong} in {cycles:,} cycles",
        "–",
        str(wrong),
        "0",
        wrong == 0,
    )
    errors = sum(figures["errors"] for figures in runs)
    first = next((figures["first_error"] for figures in runs if figures["errors"]), "")
    table.add(
        "hand-over, all sizes: client errors",
        f"{errors} {first}".strip(),
        "–",
        str(errors),
        "0",
        errors == 0,
    )


def measure_library(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    seconds = max(1, 5 * scale / 100)
    many, sets, one, near, other = [], [], [], [], []
    for number in range(1, rounds + 1):
        print_line(f"library, {LIBRARY_CALLERS} callers and SET, round {number} of {rounds}, {2 * seconds:.0f} s …")
        many.append(library_cycles(rig, LIBRARY_CALLERS, seconds))
        sets.append(
            load.redis_benchmark(
                rig.redis_port,
                ["SET", "key:__rand_int__", "v", "NX", "PX", "1000"],
                requests=400_000 * scale // 100,
                names=100_000_000,
            )
        )
        print_line(f"library and redis-py, one caller each, round {number} of {rounds}, {3 * seconds:.0f} s …")
        one.append(library_cycles(rig, 1, seconds))
        near.append(library_cycles(rig, 1, seconds, "--near"))
        peer = load.peer("redis-py", rig.redis_port, 1, seconds)
        other.append(peer["cycles"] / peer["seconds"])
    table.ratio(f"library, acquire and release: {LIBRARY_CALLERS} callers ÷ SET NX PX, 50 clients", many, sets, 0.6)
    table.ratio("library, acquire and release: one caller ÷ redis-py", one, other, 1.3)
    table.ratio("library, acquire and release: one caller on the coordinator's event loop ÷ redis-py", near, other, 1.5)


def library_cycles(
    rig: Rig, callers: int, seconds: float, *options: object, generator: pathlib.Path = load.GENERATOR
) -> float:
    figures = load.run_generator(
        "library", "--redis", rig.redis_url, "--callers", callers, *options, seconds=seconds, generator=generator
    )
    return figures["cycles"] / figures["seconds"]


def measure_linked(rig: Rig, table: Table, scale: int) -> None:
    # Long enough for each lease to expire without renewal.
    seconds = max(1.5 * TTL / 1000, 60 * scale / 100)
    [sidecar] = rig.start_fleet(1)
    time.sleep(1)
    before = sidecar.resident_kilobytes()
    print_line(f"linked leases: acquiring {LEASES:,} …")
    holder = rig.start(
        "linked",
        load.GENERATOR,
        "linked",
        "--sidecar",
        sidecar.address,
        "--leases",
        LEASES,
        "--ttl",
        TTL,
        "--seconds",
        seconds,
        stdout=subprocess.PIPE,
        text=True,
    )
    answer(rig, holder, "held")
    begin, busy, commands = time.monotonic(), sidecar.processor_seconds(), sidecar.redis_commands()
    # One second less, so that the final check of the leases is not measured.
    watch(seconds - 1)
    length = time.monotonic() - begin
    fraction = (sidecar.processor_seconds() - busy) / length
    rate = (sidecar.redis_commands() - commands) / length
    each = (sidecar.resident_kilobytes() - before) / LEASES
    lost = answer(rig, holder, "lost")
    rig.stop(holder)
    rig.stop(sidecar.process)
    label = f"{LEASES:,} linked leases of {TTL / 1000:.0f} s"
    table.add(f"{label}: lost in {seconds:.0f} s", str(lost), "–", str(lost), "0", lost == 0)
    table.add(f"{label}: resident memory per lease", f"{each:.2f} KB", "–", f"{each:.2f} KB", "≤ 1 KB", each <= 1)
    table.add(f"{label}: CPU cores used", f"{fraction:.3f}", "–", f"{fraction:.3f}")
    table.add(f"{label}: commands to Redis", f"{rate:,.0f}/s", "–", f"{rate:,.0f}/s")


def answer(rig: Rig, holder: subprocess.Popen[str], key: str) -> Any:
    """Returns a value of the next line that the holder prints."""
    assert holder.stdout is not None
    line = holder.stdout.readline()
    if not line:
        sys.exit(f"benchmark: linked leases: {(rig.folder / 'linked.log').read_text()[-1000:]}")
    return json.loads(line)[key]


def watch(seconds: float) -> None:
    end = time.monotonic() + seconds
    while (remaining := end - time.monotonic()) > 0:
        print_line(f"linked leases: held, {remaining:.0f} s to go …")
        time.sleep(min(10, remaining))
