#!/usr/bin/env python3
"""Measures what the sidecar costs, beside Redis itself, in one run on one machine.

Starts a redis-server and a sidecar of the release build on TCP loopback, and drives both with redis-benchmark, sides
alternating; each figure is the median of the rounds. Prints one table with both sides and their ratio, and writes it to
docs/benchmarks.md. Uses the Python standard library only.
"""

import argparse
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / ".build" / "release" / "interlock"
CONFIGURATION = """
services:
  many: { limits: [ { limit: 1000000000, per: 1s } ] }
  shut: { limits: [ { limit: 1000000000, per: 1s } ] }
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Client:
    """The smallest Redis client: one command, one reply at a time, for timing single round trips."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")

    def command(self, *words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(parts))
        return self.reply()

    def reply(self):
        line = self.reader.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind in (b"+", b":"):
            return rest
        if kind == b"$":
            return None if rest == b"-1" else self.reader.read(int(rest) + 2)[:-2]
        return [self.reply() for _ in range(max(0, int(rest)))]


def wait_until(condition, what, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.005)
    sys.exit(f"benchmark: {what} did not happen within {seconds} s")


class Rig:
    """A Redis and a sidecar in a fresh folder; both are stopped at the end, whatever happens."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="interlock-bench-"))
        self.processes = []
        self.redis_port, self.resp_port, self.http_port = free_port(), free_port(), free_port()

    def __enter__(self):
        self.start("redis", "redis-server", "--port", self.redis_port, "--bind", "127.0.0.1", "--save", "",
                   "--appendonly", "no", "--dir", self.folder)
        wait_until(lambda: Client(self.redis_port).command("PING"), "the start of redis-server")
        (self.folder / "interlock.yaml").write_text(CONFIGURATION)
        return self

    def start(self, name, *command):
        log = open(self.folder / f"{name}.log", "wb")
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def start_sidecar(self):
        """The sidecar's process, and after how many seconds it was ready."""
        begin = time.monotonic()
        process = self.start(
            "sidecar", BINARY, "serve", "--config", self.folder / "interlock.yaml",
            "--redis", f"redis://127.0.0.1:{self.redis_port}",
            "--resp", f"127.0.0.1:{self.resp_port}", "--http", f"127.0.0.1:{self.http_port}")
        log = self.folder / "sidecar.log"
        wait_until(lambda: b"is ready" in log.read_bytes(), "the start of the sidecar")
        return process, time.monotonic() - begin

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def requests_per_second(port, command, clients=50, pipeline=1, requests=100_000, names=None):
    words = ["redis-benchmark", "-p", port, "-c", clients, "-P", pipeline, "-n", requests, "-q"]
    if names:
        words += ["-r", names]
    result = subprocess.run([str(w) for w in words + list(command)], capture_output=True, text=True, timeout=120)
    found = re.findall(r"([\d.]+) requests per second", result.stdout)
    if not found:
        sys.exit(f"benchmark: redis-benchmark printed no figure: {result.stdout[-500:]} {result.stderr[-500:]}")
    return float(found[-1])


def median_latency(port, command, rounds=3000):
    """Microseconds of one command of one client, at the median. `command` makes the words from a number."""
    client = Client(port)
    for index in range(200):
        client.command(*command(f"warm{index}"))
    samples = []
    for index in range(rounds):
        words = command(f"{os.getpid()}-{time.monotonic_ns()}-{index}")
        begin = time.perf_counter_ns()
        client.command(*words)
        samples.append(time.perf_counter_ns() - begin)
    return statistics.median(samples) / 1000


def resident_megabytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def version(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip().splitlines()[0]
    except (OSError, IndexError):
        return "?"


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, ours, theirs, figure, bound, holds):
        self.rows.append((what, ours, theirs, figure, bound, "yes" if holds else "NO"))
        print(f"  {what}: {ours} | {theirs} | {figure} (bound {bound}) {'ok' if holds else 'MISSED'}", flush=True)

    def ratio(self, what, ours, theirs, bound):
        mine, other = statistics.median(ours), statistics.median(theirs)
        # Pair by pair: a machine whose speed drifts moves both sides of a pair.
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        self.add(what, f"{mine:,.0f}/s", f"{other:,.0f}/s", f"{ratio:.2f}", f"≥ {bound}", ratio >= bound)

    def markdown(self):
        head = ("what", "sidecar", "beside it", "figure", "bound", "holds")
        lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
        return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in self.rows])


def acquire_script():
    return (ROOT / "Sources/Interlock/Locks/acquire.lua").read_bytes()


def throughput(rig, table, rounds, scale):
    sha = Client(rig.redis_port).command("SCRIPT", "LOAD", acquire_script()).decode()
    names = 100_000_000
    acquire_direct = ["EVALSHA", sha, "3", "lock:{__rand_int__}", "fence:{__rand_int__}", "queue:{__rand_int__}",
                      "label/00000000000000000000000000000000", "1000"]
    acquire = ["LOCK.ACQUIRE", "name__rand_int__", "1000"]
    pairs = [
        ("LIMIT.TAKE ÷ INCRBY, 50 clients", ["LIMIT.TAKE", "many"], ["INCRBY", "k", "1"],
         dict(requests=150_000 * scale // 100), 0.75),
        ("LIMIT.TAKE ÷ INCRBY, pipelines of 16", ["LIMIT.TAKE", "many"], ["INCRBY", "k", "1"],
         dict(pipeline=16, requests=1_500_000 * scale // 100), 0.75),
        ("LOCK.ACQUIRE ÷ EVALSHA of its script, 50 clients", acquire, acquire_direct,
         dict(requests=100_000 * scale // 100, names=names), 0.75),
        ("PERMIT.ACQUIRE, open breaker ÷ PING, pipelines of 16", ["PERMIT.ACQUIRE", "shut"], ["PING"],
         dict(pipeline=16, requests=1_500_000 * scale // 100), 0.6),
    ]
    for what, ours, theirs, options, bound in pairs:
        print(f"measuring {what} …", flush=True)
        requests_per_second(rig.resp_port, ours, **{**options, "requests": options["requests"] // 5})
        mine, other = [], []
        for _ in range(rounds):
            mine.append(requests_per_second(rig.resp_port, ours, **options))
            other.append(requests_per_second(rig.redis_port, theirs, **options))
        table.ratio(what, mine, other, bound)


def latency(rig, table, rounds):
    print("measuring LOCK.ACQUIRE with one client …", flush=True)
    sha = Client(rig.redis_port).command("SCRIPT", "LOAD", acquire_script()).decode()
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(median_latency(rig.resp_port, lambda name: ("LOCK.ACQUIRE", name, "1000")))
        theirs.append(median_latency(
            rig.redis_port,
            lambda name: ("EVALSHA", sha, "3", "lock:{%s}" % name, "fence:{%s}" % name, "queue:{%s}" % name,
                          "label/00000000000000000000000000000000", "1000")))
    added = statistics.median(a - b for a, b in zip(ours, theirs))
    table.add("LOCK.ACQUIRE, one client, added at the median", f"{statistics.median(ours):.0f} µs",
              f"{statistics.median(theirs):.0f} µs", f"{added:.0f} µs", "≤ 90 µs", added <= 90)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5, help="pairs of runs per figure (default 5)")
    options.add_argument("--scale", type=int, default=100, help="length of each run in percent (default 100)")
    options.add_argument("--no-write", action="store_true", help="leave docs/benchmarks.md alone")
    options = options.parse_args()
    if not BINARY.exists():
        sys.exit("benchmark: build first: swift build -c release")
    table = Table()
    with Rig() as rig:
        starts = []
        for _ in range(options.rounds):
            sidecar, ready = rig.start_sidecar()
            starts.append(ready * 1000)
            sidecar.send_signal(signal.SIGTERM)
            sidecar.wait(15)
            rig.processes.remove(sidecar)
        sidecar, _ = rig.start_sidecar()
        start = statistics.median(starts)
        table.add("ready after start, Redis being up", f"{start:.0f} ms", "–", f"{start:.0f} ms", "≤ 200 ms", start <= 200)
        time.sleep(2)
        idle = resident_megabytes(sidecar.pid)
        table.add("resident when idle", f"{idle:.1f} MB", "–", f"{idle:.1f} MB", "≤ 40 MB", idle <= 40)
        control = Client(rig.resp_port)
        control.command("BREAKER.FORCE", "shut", "OPEN")
        latency(rig, table, options.rounds)
        throughput(rig, table, options.rounds, options.scale)
        loaded = resident_megabytes(sidecar.pid)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"
    versions = "; ".join([version("redis-server", "--version"), version("swift", "--version"),
                          version(str(BINARY), "--version")])
    page = f"""# Benchmarks

Written by `make bench` on {time.strftime('%Y-%m-%d')}: {machine}. {versions}.

Redis, the sidecar and `redis-benchmark` share the machine, over TCP loopback. Each figure is the median of
{options.rounds} rounds, sides alternating; a ratio is the median of the rounds' ratios. Compare ratios, not single figures.

{table.markdown()}

Resident after the run: {loaded:.1f} MB.
"""
    print("\n" + page)
    if not options.no_write:
        (ROOT / "docs" / "benchmarks.md").write_text(page)
    return 0 if all(row[-1] == "yes" for row in table.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
