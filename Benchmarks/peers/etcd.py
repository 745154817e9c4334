"""etcd's lock through its JSON gateway, compared to Interlock's over HTTP and through redis-py."""

import pathlib
import shutil
import socket
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from figures.table import Table
from rig import load
from rig.load import Figures
from rig.servers import Rig, free_port, say, wait_until

CALLERS = (1, 8)
WAITERS = 16
#: A folder in memory.
MEMORY = pathlib.Path("/dev/shm")
ETCD, HTTP, RESP = "etcd", "interlock-http", "interlock"
#: Locks need no service.
CONFIGURATION = "services: {}"
EXPLANATION = f"""\
**etcd**: Python processes acquire and release a lock in a loop: with one etcd through its JSON gateway, and with
Interlock by the same HTTP client and by redis-py. etcd keeps its data in `{MEMORY}` where the system has it, so that it
waits for no disk, as Redis here does not. One caller and {CALLERS[-1]} have a lock each; {WAITERS} callers share one. A
production etcd has three or five members, and also waits for a majority of them."""


def measure(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    why = (
        load.lacks("redis_lock")
        if shutil.which("etcd")
        else "there is no etcd; `make bench` installs it where it can be had"
    )
    if why:
        table.missing("lock and unlock of etcd", why)
        return
    seconds = max(1, 3 * scale / 100)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="interlock-etcd-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        port, process = start(rig, folder)
        sidecar = rig.start_sidecar()
        ports = {HTTP: sidecar.http_port, RESP: sidecar.port, ETCD: port}
        for callers in CALLERS:
            runs = run(ports, "cycles apart", callers, rounds, seconds, "--apart")
            report_speed(
                table, f"lock and unlock, {callers} {'caller' if callers == 1 else 'callers'} with a lock each", runs
            )
        runs = run(ports, "hand-over", WAITERS, rounds, seconds)
        report_speed(table, f"lock and unlock, {WAITERS} callers of one lock", runs)
        report_times(table, f"lock, {WAITERS} callers of one", runs)
        rig.stop(sidecar.process)
        rig.stop(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start(rig: Rig, folder: pathlib.Path) -> tuple[int, subprocess.Popen[Any]]:
    port, peers = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    process = rig.start(
        "etcd",
        "etcd",
        "--data-dir",
        folder / "data",
        "--listen-client-urls",
        port,
        "--advertise-client-urls",
        port,
        "--listen-peer-urls",
        peers,
        "--initial-advertise-peer-urls",
        peers,
        "--initial-cluster",
        f"default={peers}",
    )
    number = int(port.rpartition(":")[2])
    wait_until(lambda: is_healthy(number), "the start of etcd")
    return number, process


def is_healthy(port: int) -> bool:
    # A plain socket: http.client fails on what etcd sends before it is ready.
    with socket.create_connection(("127.0.0.1", port), timeout=2) as probe:
        probe.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        return b'"true"' in probe.makefile("rb").read()


def run(
    ports: Mapping[str, int], what: str, callers: int, rounds: int, seconds: float, *options: object
) -> dict[str, list[Figures]]:
    """Returns the figures of each side's runs, by its name."""
    runs: dict[str, list[Figures]] = {side: [] for side in ports}
    for number in range(1, rounds + 1):
        for side, port in ports.items():
            say(f"{what}, {side}, processes: {callers}, round {number} of {rounds}, {seconds:.0f} s …")
            runs[side].append(load.peer(side, port, callers, seconds, *options))
    return runs


def report_speed(table: Table, what: str, runs: Mapping[str, Sequence[Figures]]) -> None:
    rates = {side: [figures["cycles"] / figures["seconds"] for figures in of_side] for side, of_side in runs.items()}
    table.ratio(f"{what}: cycles over HTTP ÷ etcd's", rates[HTTP], rates[ETCD])
    table.ratio(f"{what}: cycles by redis-py ÷ etcd's", rates[RESP], rates[ETCD])


def report_times(table: Table, what: str, runs: Mapping[str, Sequence[Figures]]) -> None:
    def times(side: str) -> list[float]:
        return [
            statistics.median(figures[key] for figures in runs[side]) for key in ("p50_ms", "p99_ms", "longest_wait_ms")
        ]

    ours, plain, theirs = times(HTTP), times(RESP), times(ETCD)
    table.add(
        f"{what}: release to next grant, p50 and p99",
        f"HTTP {ours[0]:.2f} and {ours[1]:.2f} ms; redis-py {plain[0]:.2f} and {plain[1]:.2f} ms",
        f"etcd {theirs[0]:.2f} and {theirs[1]:.2f} ms",
        f"{ours[1] / theirs[1]:.2f}",
    )
    table.add(
        f"{what}: longest wait",
        f"HTTP {ours[2]:,.0f} ms; redis-py {plain[2]:,.0f} ms",
        f"etcd {theirs[2]:,.0f} ms",
        f"{ours[2] / theirs[2]:.2f}",
    )


def version() -> str:
    if not shutil.which("etcd"):
        return "etcd missing"
    printed = subprocess.run(["etcd", "--version"], capture_output=True, text=True, timeout=20).stdout
    return f"etcd {printed.splitlines()[0].split()[-1]}"
