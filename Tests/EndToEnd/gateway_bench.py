"""Tools for measuring the gRPC API: Redis, a sidecar on its own core, clocks and targets."""

import contextlib
import gc
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gateway_client import HEALTH_CHECK, SHOULD_RATE_LIMIT, GatewayClient
from gateway_floods import DOMAIN, KEY, body
from servers import HTTP, REDIS, RESP, TIMEOUT, Connection, Failure, Servers, free_ports

CONFIGURATION = """
redis: {{ url: "redis://127.0.0.1:{redis}" }}
listen: {{ resp: "127.0.0.1:{resp}", http: "127.0.0.1:{http}", grpc: "127.0.0.1:{grpc}" }}
# A long timeout, so that no decision is made without Redis.
rls: {{ timeout: 2s }}
services:
  {domain}: {{ limits: [ {{ limit: 1000000000, per: 1h }} ] }}
rate_limits:
  {domain}: {{ descriptors: [ {{ key: {key}, limit: 1000000000, per: 1h }} ] }}
"""
#: The number of calls of one kind before the other kind's turn.
CALLS_PER_BLOCK = 250
#: A response begins with `overall_code` OK; a health response consists of `status` SERVING.
GRANTED, SERVING = b"\x08\x01", b"\x08\x01"


class Report:
    """Prints figures and records which missed their targets."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def print_figure(self, name: str, text: str) -> None:
        print(f"{name}: {text}", flush=True)

    def check_target(self, name: str, text: str, target: str, is_met: bool) -> None:
        """Prints `text`, which names both compared figures, and whether the target is met."""
        self.print_figure(name, f"{text} (target: {target}){'' if is_met else ' MISSED'}")
        if not is_met:
            self.missed.append(f"{name}: {text} (target: {target})")


class Bench:
    """Redis and one sidecar. With two or more cores, the sidecar has the first one to itself."""

    def __init__(self, binary: Path, rounds: int, scale: float) -> None:
        self.rounds = rounds
        #: The length of each part, as a fraction of the real run.
        self.scale = scale
        self.cpu_prefix: list[str] = []
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > 1 and shutil.which("taskset"):
            self.cpu_prefix = ["taskset", "-c", str(cores[0])]
            os.sched_setaffinity(0, cores[1:])
        self.servers = Servers(binary, Path(tempfile.mkdtemp(prefix="interlock-gateway-speed-")))
        self.redis = Connection(self.servers.ports[REDIS])
        # Without persistence, the disk does not affect the figures.
        self.redis.call("CONFIG", "SET", "appendonly", "no")
        self.grpc = free_ports(1)[0]
        self.file = self.servers.folder / "sidecar.yaml"
        ports = {name: self.servers.ports[port] for name, port in (("redis", REDIS), ("resp", RESP), ("http", HTTP))}
        self.file.write_text(CONFIGURATION.format(**ports, grpc=self.grpc, domain=DOMAIN, key=KEY))

    def start_sidecar(self) -> subprocess.Popen[bytes]:
        """Starts a sidecar, and stops the previous one."""
        servers = self.servers
        if servers.sidecar:
            servers.stop(servers.sidecar)
        servers.sidecar = servers.start(*self.cpu_prefix, str(servers.binary), "serve", "--config", str(self.file))
        servers.wait_until("the sidecar is ready", lambda: servers.readiness() == 200)
        with self.client() as client:
            call_times(lambda: ask(client), self.scale)
        return servers.sidecar

    def client(self) -> contextlib.closing[GatewayClient]:
        """Returns a client whose requests have one descriptor."""
        return contextlib.closing(GatewayClient(self.grpc, SHOULD_RATE_LIMIT, body()))

    def decision_count(self) -> int:
        """Returns the number of rate limit calls that were answered without an error."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.servers.ports[HTTP]}/metrics", timeout=TIMEOUT) as answer:
            text = answer.read().decode()
        labels = re.escape(f'{{method="{SHOULD_RATE_LIMIT}",status="ok"}}')
        match = re.search(rf"^interlock_grpc_requests_total{labels} (\d+)", text, re.MULTILINE)
        return int(match[1]) if match else 0

    def is_healthy(self) -> bool:
        with contextlib.closing(GatewayClient(self.grpc, HEALTH_CHECK, b"")) as client:
            return client.ask() == SERVING

    def alternate(self, calls: Mapping[str, Callable[[], None]], blocks: int) -> dict[str, list[list[float]]]:
        """Returns the times of each round. Blocks of each kind take turns, so that a disturbance affects all kinds."""
        rounds: dict[str, list[list[float]]] = {name: [] for name in calls}
        for _ in range(self.rounds):
            for results in rounds.values():
                results.append([])
            for block in range(max(2, int(blocks * self.scale))):
                for name in sorted(calls, reverse=block % 2 == 1):
                    rounds[name][-1] += call_times(calls[name], count=CALLS_PER_BLOCK)
        return rounds


def ask(client: GatewayClient) -> None:
    answer = client.ask()
    if not answer.startswith(GRANTED):
        raise Failure(f"a call within the limit returned {answer!r}")


# ---- resources of a process


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    # utime and stime of proc_pid_stat(5), after the name in parentheses.
    user, system = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def reset_peak_resident(process: subprocess.Popen[bytes]) -> int:
    """Returns the resident bytes, and resets the kernel's peak."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return peak_resident(process)


def peak_resident(process: subprocess.Popen[bytes]) -> int:
    match = re.search(r"^VmHWM:\s*(\d+) kB$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
    assert match
    return int(match[1]) * 1024


# ---- times, in microseconds


def call_times(call: Callable[[], None], seconds: float = 0, count: int = 0) -> list[float]:
    """Returns the time of each call, for at least this long and at least this many calls."""
    times: list[float] = []
    gc.disable()
    now = time.perf_counter()
    end = now + seconds
    while len(times) < count or now < end:
        began = now
        call()
        now = time.perf_counter()
        times.append((now - began) * 1e6)
    gc.enable()
    return times


def p50(times: list[float]) -> float:
    return statistics.median(times)


def p99(times: list[float]) -> float:
    return sorted(times)[len(times) * 99 // 100]


def median_of(figure: Callable[[list[float]], float], rounds: Iterable[list[float]]) -> float:
    return statistics.median(map(figure, rounds))
