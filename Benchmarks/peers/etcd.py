"""etcd's lock through its JSON gateway and its own Go client, next to Interlock's by HTTP, redis-py and redigo."""

import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from figures.table import Table
from peers import turns
from rig import load
from rig.load import Figures
from rig.servers import ROOT, Rig, free_port, print_line, wait_until

CALLERS = (1, 8)
WAITERS = 16
#: A directory in memory.
MEMORY = pathlib.Path("/dev/shm")
ETCD, HTTP, RESP = "etcd", "interlock-http", "interlock"
#: The callers in Go: the name of the side, and what the program calls its library.
ETCD_GO, RESP_GO = "etcd-go", "interlock-go"
GO_LIBRARIES = {ETCD_GO: "etcd", RESP_GO: "interlock"}
GO_SOURCES = ROOT / "Benchmarks" / "peers" / "gocallers"
GO_PROGRAM = ROOT / ".build" / "gocallers"
#: Debian's packages of Go libraries have their sources here.
GO_PATH = "/usr/share/gocode"
#: Locks need no service.
CONFIGURATION = "services: {}"
EXPLANATION = f"""\
**etcd** is one member with its data in memory (`{MEMORY}`). It is called through its JSON gateway, and by its own Go
client, which is compared to redigo. Production needs three or five members. For times, the result divides Interlock's
p99 or longest wait by etcd's, both over HTTP unless the row names Go clients."""


def measure(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    why = (
        load.missing_library("redis_lock")
        if shutil.which("etcd")
        else "there is no etcd; `make bench` installs it if it is available"
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
        if without_go := build_go_callers():
            table.missing("lock and unlock of etcd, by its own client", without_go)
        else:
            ports |= {RESP_GO: sidecar.port, ETCD_GO: port}
        for callers in CALLERS:
            runs = run(ports, "cycles apart", callers, rounds, seconds, "--apart")
            report_speed(table, f"{callers} {'caller' if callers == 1 else 'callers'}", runs)
        runs = run(ports, "hand-over", WAITERS, rounds, seconds)
        report_speed(table, f"{WAITERS} callers of one lock", runs)
        report_times(table, f"{WAITERS} callers of one lock", runs)
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
    # A plain socket, because http.client fails on the response that etcd sends before it is ready.
    with socket.create_connection(("127.0.0.1", port), timeout=2) as probe:
        probe.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        return b'"true"' in probe.makefile("rb").read()


def run(
    ports: Mapping[str, int], label: str, callers: int, rounds: int, seconds: float, *options: object
) -> dict[str, list[Figures]]:
    """Returns the figures of each side's runs, by its name."""
    runs: dict[str, list[Figures]] = {side: [] for side in ports}
    for number in range(1, rounds + 1):
        for side, port in ports.items():
            print_line(f"{label}, {side}, processes: {callers}, round {number} of {rounds}, {seconds:.0f} s …")
            make = go_callers if side in GO_LIBRARIES else load.peer
            runs[side].append(make(side, port, callers, seconds, *options))
    return runs


def build_go_callers() -> str | None:
    """Builds the callers in Go. Returns why they are not available here, or None."""
    if not shutil.which("go"):
        return "there is no Go; `make bench` installs it if it is available"
    return go_build(GO_SOURCES, GO_PROGRAM, GO_PATH)


def go_build(sources: pathlib.Path, program: pathlib.Path, path: str, *flags: str) -> str | None:
    """Builds a Go program with libraries from the folders of `path`. Returns why that failed, or None."""
    settings = {
        "GOPATH": path,
        "GO111MODULE": "off",
        "GOFLAGS": "",
        "GOCACHE": str(program.with_suffix(".cache")),
    }
    command: list[str | pathlib.Path] = ["go", "build", *flags, "-o", program, "."]
    done = subprocess.run(command, cwd=sources, env=os.environ | settings, capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def go_callers(side: str, port: int, callers: int, seconds: float, *options: object) -> Figures:
    """Runs `peers/gocallers`."""
    words: list[object] = ["-library", GO_LIBRARIES[side], "-port", port, "-callers", callers, "-seconds", seconds]
    words += [str(option).removeprefix("-") for option in options]
    printed = json.loads(load.output(GO_PROGRAM, *words, seconds=seconds + 60))
    return turns.figures(printed["turns"], printed["begin"], printed["end"])


def report_speed(table: Table, label: str, runs: Mapping[str, Sequence[Figures]]) -> None:
    rates = {side: [figures["cycles"] / figures["seconds"] for figures in of_side] for side, of_side in runs.items()}
    table.ratio(f"lock and unlock ÷ etcd: {label}, HTTP", rates[HTTP], rates[ETCD])
    table.ratio(f"lock and unlock ÷ etcd: {label}, redis-py", rates[RESP], rates[ETCD])
    if ETCD_GO in rates:
        table.ratio(f"lock and unlock ÷ etcd: {label}, Go clients of both", rates[RESP_GO], rates[ETCD_GO])


def report_times(table: Table, label: str, runs: Mapping[str, Sequence[Figures]]) -> None:
    def times(side: str) -> list[float]:
        return [
            statistics.median(figures[key] for figures in runs[side]) for key in ("p50_ms", "p99_ms", "longest_wait_ms")
        ]

    http_times, resp_times, etcd_times = times(HTTP), times(RESP), times(ETCD)
    table.add(
        f"{label} ÷ etcd: release to next grant, p50/p99, ms",
        f"HTTP {http_times[0]:.2f}/{http_times[1]:.2f}; redis-py {resp_times[0]:.2f}/{resp_times[1]:.2f}",
        f"{etcd_times[0]:.2f}/{etcd_times[1]:.2f}",
        f"{http_times[1] / etcd_times[1]:.2f}",
    )
    table.add(
        f"{label} ÷ etcd: longest wait, ms",
        f"HTTP {http_times[2]:,.0f}; redis-py {resp_times[2]:,.0f}",
        f"{etcd_times[2]:,.0f}",
        f"{http_times[2] / etcd_times[2]:.2f}",
    )
    if ETCD_GO in runs:
        http_times, etcd_times = times(RESP_GO), times(ETCD_GO)
        table.add(
            f"{label} ÷ etcd: release to next grant, p50/p99, ms, Go clients of both",
            f"{http_times[0]:.2f}/{http_times[1]:.2f}",
            f"{etcd_times[0]:.2f}/{etcd_times[1]:.2f}",
            f"{http_times[1] / etcd_times[1]:.2f}",
        )


def version() -> str:
    if not shutil.which("etcd"):
        return "etcd missing"
    printed = subprocess.run(["etcd", "--version"], capture_output=True, text=True, timeout=20).stdout
    return f"etcd {printed.splitlines()[0].split()[-1]}"
