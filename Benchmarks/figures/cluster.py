"""The distribution of work over a cluster's primaries, their cost, and the latency while hash slots move."""

import json
import random
import statistics
import subprocess
import sys
import time

from figures.table import Table
from rig.client import Client, Replies, encode
from rig.cluster import ClusterRig
from rig.servers import BENCH, Sidecar, print_line

#: The number of locks, and of services with a limit each. Their names are drawn from this seed.
COUNT, SEED = 1_000, 20_261_124
PRIMARIES = (1, 3)
#: The takes of one round, and the number in flight.
TAKES, FLIGHT = 60_000, 1_000
#: Seconds of load while hash slots move, and operations a second.
MOVING, RATE = 120, 1_000
MAX_DEVIATION, MAX_RATIO, MAX_MS = 0.2, 20, 50
EXPLANATION = f"""\
There are {COUNT:,} locks, and {COUNT:,} services with one limit each. One client makes {TAKES:,} takes,
{FLIGHT:,} at a time. With more primaries, batches are smaller; all share two cores. Hash slots move under {RATE:,}
operations/s."""


def names() -> list[str]:
    generator = random.Random(SEED)
    return [f"name-{generator.getrandbits(40):010x}" for _ in range(COUNT)]


def configuration() -> str:
    lines = [f"  {name}: {{ limits: [ {{ limit: 1000000000, per: 1s }} ] }}" for name in names()]
    return "services:\n" + "\n".join(lines) + "\n"


def measure(table: Table, rounds: int, scale: int) -> None:
    rates: dict[int, list[float]] = {}
    costs: dict[int, list[list[float]]] = {}
    for primaries in PRIMARIES:
        with ClusterRig(configuration(), primaries) as rig:
            sidecar = rig.start_sidecar()
            if primaries == PRIMARIES[-1]:
                add_distribution(rig, sidecar, table)
            for _ in range(rounds):
                before = rig.processor_seconds()
                rates.setdefault(primaries, []).append(takes(sidecar, max(FLIGHT, TAKES * scale // 100)))
                after = rig.processor_seconds()
                costs.setdefault(primaries, []).append([b - a for a, b in zip(before, after, strict=True)])
    one, three = (statistics.median(rates[primaries]) for primaries in PRIMARIES)
    table.add(
        f"LIMIT.TAKE of {COUNT:,} services, three primaries ÷ one",
        f"{three:,.0f}/s",
        f"{one:,.0f}/s",
        f"{three / one:.2f}",
    )
    for primaries in PRIMARIES:
        each = [statistics.median(column) for column in zip(*costs[primaries], strict=True)]
        microseconds = 1e6 / max(FLIGHT, TAKES * scale // 100)
        table.add(
            f"Redis CPU per take, µs, {primaries} primar{'y' if primaries == 1 else 'ies'}",
            "+".join(f"{seconds * microseconds:.2f}" for seconds in each),
            "–",
            f"{sum(each) * microseconds:.2f}",
        )
    measure_moving(table, max(20, MOVING * scale // 100))


def add_distribution(rig: ClusterRig, sidecar: Sidecar, table: Table) -> None:
    """Adds each primary's fraction of the scripts and of the names."""
    client = Client(sidecar.port)
    owners = [rig.owner(name) for name in names()]
    before = rig.scripts_run()
    for name in names():
        token = client.command("LOCK.ACQUIRE", name, 60_000)[0]
        client.command("LOCK.RELEASE", name, token)
        client.command("LIMIT.TAKE", name)
    ran = {port: count - before[port] for port, count in rig.scripts_run().items()}
    total = sum(ran.values())
    fractions = {port: owners.count(port) / COUNT for port in rig.servers}
    worst = max(abs(ran[port] / total / fraction - 1) for port, fraction in fractions.items())
    table.add(
        "scripts per primary ÷ its names",
        "/".join(f"{ran[port] / total:.1%}" for port in rig.servers),
        "/".join(f"{fraction:.1%}" for fraction in fractions.values()),
        f"at most {worst:.1%} apart",
        f"≤ {MAX_DEVIATION:.0%}",
        worst <= MAX_DEVIATION,
    )


def takes(sidecar: Sidecar, count: int) -> float:
    """Sends takes of all services in turn, many in flight. Returns takes per second."""
    client = Client(sidecar.port)
    flight = b"".join(encode("LIMIT.TAKE", name) for name in names()[:FLIGHT])
    begin = time.monotonic()
    for _ in range(count // FLIGHT):
        client.socket.sendall(flight)
        replies, awaited = Replies(), FLIGHT
        while awaited > 0:
            awaited -= len(replies.feed(client.socket.recv(1 << 18)))
    return count / (time.monotonic() - begin)


def measure_moving(table: Table, seconds: int) -> None:
    """Measures the p99 of the seconds in which hash slots move, and of the others."""
    words = [BENCH, "mixed", "--topology", "cluster", "--faults", "reshard", "--rate", RATE]
    words += ["--clients", 256, "--duration", f"{seconds}s", "--seed", SEED, "--json", "-"]
    print_line("  slots move under load")
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=seconds + 300)
    if run.returncode != 0:
        sys.exit(f"benchmark: slots that move: {run.stderr[-1000:]}")
    report = json.loads(run.stdout)
    moved = {
        second
        for fault in report["faults"]
        for second in range(int(fault["began_s"]), int(fault.get("ended_s", fault["began_s"])) + 1)
    }
    points = {point["second"]: point["p99_us"] / 1e3 for point in report["timeline"] if point.get("p99_us")}
    # The first seconds include connecting and loading scripts.
    calm = [p99 for second, p99 in points.items() if second > 2 and not {second - 1, second, second + 1} & moved]
    during = [p99 for second, p99 in points.items() if second in moved]
    if not calm or not during:
        sys.exit("benchmark: no slot moved")
    moving_p99, before = statistics.median(during), statistics.median(calm)
    table.add(
        "p99 while hash slots move ÷ p99 otherwise",
        f"{moving_p99:.1f} ms; at worst {max(during):.1f} ms in {len(report['faults'])} moves",
        f"{before:.1f} ms",
        f"{moving_p99 / before:.1f}",
        f"≤ {MAX_RATIO} and ≤ {MAX_MS} ms",
        moving_p99 <= MAX_RATIO * before and moving_p99 <= MAX_MS,
    )
