"""One sidecar compared to Redis itself: start, memory, latency and throughput. Also its HTTP API compared to RESP.

Two Python clients that send prepared bytes measure the latency that HTTP adds.
"""

import os
import pathlib
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from figures.table import Table
from rig import load, web
from rig.client import Client, Command, encode
from rig.monitor import words_of
from rig.servers import ROOT, Rig, Sidecar, print_line

#: Opens the breaker of the permits.
OPENING = ("BREAKER.FORCE", "shut", "OPEN")
TAKE = load.Load("LIMIT.TAKE", ("LIMIT.TAKE", "many"), 150_000)
ACQUIRE = load.Load("LOCK.ACQUIRE", ("LOCK.ACQUIRE", "name__rand_int__", "1000"), 100_000, names=100_000_000)
#: The same over HTTP, and the number of connections to each API.
TAKE_PATH = "/v1/limits/many/take"
CONNECTIONS = 32
#: Prints the figures of wrk. The script for POST precedes it.
WRK = ROOT / "Benchmarks" / "peers" / "proxies" / "wrk.lua"
PERMIT = load.Load("PERMIT.ACQUIRE, open breaker", ("PERMIT.ACQUIRE", "shut"), 1_500_000, pipeline=16)
EXPLANATION = """\
Each HTTP connection of wrk has one take in flight."""


def missing() -> str | None:
    """Returns what must be installed to measure a sidecar, or None."""
    return None if shutil.which("wrk") else "wrk not found; `make bench` installs it"


def measure(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    """Measures a sidecar, which keeps running."""
    print_line(f"starting a sidecar {rounds} times …")
    starts = []
    for _ in range(rounds):
        sidecar = rig.start_sidecar()
        starts.append(sidecar.ready * 1000)
        rig.stop(sidecar.process)
    start = statistics.median(starts)
    table.add("ready after start, with Redis up", f"{start:.0f} ms", "–", f"{start:.0f} ms", "≤ 200 ms", start <= 200)
    sidecar = rig.start_sidecar()
    time.sleep(2)
    idle = sidecar.resident_kilobytes() / 1024
    table.add("resident memory when idle", f"{idle:.1f} MB", "–", f"{idle:.1f} MB", "≤ 32 MB", idle <= 32)
    Client(sidecar.port).command(*OPENING)
    acquire = acquire_as_sent(rig, sidecar)
    latency(rig, sidecar, table, rounds, acquire)
    throughput(rig, sidecar, table, rounds, scale, acquire)
    loaded = sidecar.resident_kilobytes() / 1024
    table.add("resident memory after this load", f"{loaded:.1f} MB", "–", f"{loaded:.1f} MB")
    http_latency(sidecar, table, rounds)
    http_throughput(rig, sidecar, table, rounds, scale)


def acquire_as_sent(rig: Rig, sidecar: Sidecar) -> Callable[[str], Command]:
    """Returns a function from a lock's name to the words that a sidecar sends to Redis for it. They come from MONITOR
    rather than from a copy here."""
    client, monitor = Client(sidecar.port), Client(rig.redis_port)
    # The first call may load the script.
    client.command("LOCK.ACQUIRE", "first", "1000")
    monitor.command("MONITOR")
    for _ in range(100):
        client.command("LOCK.ACQUIRE", "monitored", "1000")
        while b'"EVALSHA"' not in (line := monitor.reply()).upper() or b"{monitored}" not in line:
            pass
        # A sidecar that does not know the Redis clock yet lets scripts read it.
        if b'"0000000000000000"' not in line:
            break
        time.sleep(0.01)
    # MONITOR slows Redis down.
    monitor.close()
    words = words_of(line)
    return lambda name: [word.replace(b"monitored", name.encode()).decode("latin-1") for word in words]


def median_latency(port: int, command: Callable[[str], Sequence[object]], samples: int = 3000) -> float:
    """Returns the median microseconds of one client's command. `command` creates the words from a name."""
    client = Client(port)
    for index in range(200):
        client.command(*command(f"warm{index}"))
    times = []
    for index in range(samples):
        words = command(f"{os.getpid()}-{time.monotonic_ns()}-{index}")
        begin = time.perf_counter_ns()
        client.command(*words)
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times) / 1000


def median_time(call: Callable[[], object], samples: int = 3000) -> float:
    """Returns the median microseconds of a constant call."""
    for _ in range(200):
        call()
    times = []
    for _ in range(samples):
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times) / 1000


def acquire_latency(port: int, samples: int = 3000) -> float:
    return median_latency(port, lambda name: ("LOCK.ACQUIRE", name, "1000"), samples)


def latency(rig: Rig, sidecar: Sidecar, table: Table, rounds: int, acquire: Callable[[str], Command]) -> None:
    print_line("measuring LOCK.ACQUIRE with one client …")
    interlock, peer, pings = [], [], []
    for _ in range(rounds):
        interlock.append(acquire_latency(sidecar.port))
        peer.append(median_latency(rig.redis_port, acquire))
        # The sidecar adds at least one round trip, to itself.
        pings.append(median_latency(rig.redis_port, lambda name: ("PING",)))
    added = statistics.median(a - b for a, b in zip(interlock, peer, strict=True))
    table.add(
        "LOCK.ACQUIRE, one client, p50",
        f"{statistics.median(interlock):.0f} µs",
        f"its script in Redis {statistics.median(peer):.0f} µs; PING {statistics.median(pings):.0f} µs",
        f"{added:.0f} µs added",
        "≤ 55 µs",
        added <= 55,
    )


def throughput(
    rig: Rig, sidecar: Sidecar, table: Table, rounds: int, scale: int, acquire: Callable[[str], Command]
) -> None:
    pairs = [
        (f"{TAKE.label} ÷ INCRBY, 50 clients", TAKE, ("INCRBY", "k", "1"), 0.75),
        (f"{ACQUIRE.label} ÷ SET NX PX, 50 clients", ACQUIRE, ("SET", "k__rand_int__", "v", "NX", "PX", "1000"), 0.6),
        (f"{ACQUIRE.label} ÷ EVALSHA of its script, 50 clients", ACQUIRE, acquire("direct__rand_int__"), 0.75),
        (f"{PERMIT.label} ÷ PING, pipelines of 16", PERMIT, ("PING",), 0.6),
    ]
    for label, interlock, words, bound in pairs:
        peer = interlock._replace(command=words)
        interlock.rate(sidecar.port, scale / 5)
        interlock_rates, peer_rates = [], []
        for number in range(1, rounds + 1):
            print_line(f"measuring {label}, round {number} of {rounds} …")
            interlock_rates.append(interlock.rate(sidecar.port, scale))
            peer_rates.append(peer.rate(rig.redis_port, scale))
        table.ratio(label, interlock_rates, peer_rates, bound)


def http_latency(sidecar: Sidecar, table: Table, rounds: int) -> None:
    print_line("measuring LIMIT.TAKE with one client at each API …")
    interlock, peer = [], []
    http, resp = web.WebClient(sidecar.http_port), Client(sidecar.port)
    # Built beforehand, so that neither API's time includes it.
    request, command = web.request("POST", TAKE_PATH, b"{}"), encode(*TAKE.command)

    def post() -> None:
        if (answer := http.ask(request)).status != 200:
            sys.exit(f"benchmark: the HTTP API answered {answer.status} to {TAKE_PATH}: {answer.body!r}")

    def take() -> None:
        resp.socket.sendall(command)
        if resp.reply()[0] != b"0":
            sys.exit("benchmark: the RESP API limited a call far below its limit")

    for _ in range(rounds):
        interlock.append(median_time(post))
        peer.append(median_time(take))
    http.close()
    resp.close()
    added = statistics.median(a - b for a, b in zip(interlock, peer, strict=True))
    table.add(
        "HTTP API, LIMIT.TAKE, one connection, p50",
        f"{statistics.median(interlock):.0f} µs",
        f"RESP API {statistics.median(peer):.0f} µs",
        f"{added:.0f} µs added",
        "≤ 40 µs",
        added <= 40,
    )


def http_throughput(rig: Rig, sidecar: Sidecar, table: Table, rounds: int, scale: int) -> None:
    label = f"HTTP API, {TAKE.label}, {CONNECTIONS} connections ÷ RESP API"
    script = post_script(rig.folder)
    resp = TAKE._replace(clients=CONNECTIONS)
    http_takes(sidecar, script, 1)
    resp.rate(sidecar.port, scale / 5)
    interlock_rates, peer_rates = [], []
    for number in range(1, rounds + 1):
        print_line(f"measuring {label}, round {number} of {rounds} …")
        interlock_rates.append(http_takes(sidecar, script, max(1, 5 * scale / 100)))
        peer_rates.append(resp.rate(sidecar.port, scale))
    table.ratio(label, interlock_rates, peer_rates, 0.6)


def post_script(folder: pathlib.Path) -> pathlib.Path:
    """Returns the script with which wrk sends a take instead of GET."""
    lines = ['wrk.method = "POST"', 'wrk.headers["Content-Type"] = "application/json"', 'wrk.body = "{}"']
    script = folder / "take.lua"
    script.write_text("\n".join([*lines, WRK.read_text()]))
    return script


def http_takes(sidecar: Sidecar, script: pathlib.Path, seconds: float) -> float:
    """Returns takes per second over HTTP, all of which were granted."""
    figures = load.wrk(f"http://127.0.0.1:{sidecar.http_port}{TAKE_PATH}", script, CONNECTIONS, seconds)
    if figures["refused"] or figures["broken"] or not figures["requests"]:
        sys.exit(f"benchmark: the HTTP API did not grant all takes: {figures}")
    return figures["requests"] / figures["seconds"]
