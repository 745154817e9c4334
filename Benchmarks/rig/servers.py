"""The measured servers: a private Redis and sidecars on it, on TCP loopback."""

import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, Self

from rig.client import Client

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = ROOT / ".build" / "release"
BINARY = RELEASE / "interlock"
#: `interlock bench`. It starts the BINARY beside it.
BENCH = RELEASE / "interlock-bench"
CONFIGURATION = """
services:
  many: { limits: [ { limit: 1000000000, per: 1s } ] }
  shut: { limits: [ { limit: 1000000000, per: 1s } ] }
"""


def print_line(text: str) -> None:
    """Prints without buffering, because a run takes minutes."""
    print(text, flush=True)


#: The distance from a cluster server's port to the port of its bus.
CLUSTER_BUS = 10_000
#: Ports below those of outgoing connections, which could use one before the server starts, and for a minute after.
PORTS = range(10_240, 32_768)


#: The ports that this program has drawn. A server may not listen on its port yet.
drawn_ports: set[int] = set()


def free_port(distance: int = 0) -> int:
    """Returns one of PORTS that it has not returned before.

    distance: the distance to a second, higher port that the server uses too.
    """
    while True:
        port = random.randrange(PORTS.start, PORTS.stop - distance)
        if port in drawn_ports:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        drawn_ports.add(port)
        return port


def wait_until(condition: Callable[[], object], event: str, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.005)
    sys.exit(f"benchmark: {event} did not happen within {seconds} s")


def processor_seconds(process: subprocess.Popen[Any]) -> float:
    """Returns the user and system time of the process so far."""
    # After the command's name in parentheses, utime and stime are fields 12 and 13.
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Sidecar:
    """A running sidecar."""

    def __init__(self, process: subprocess.Popen[Any], port: int, http_port: int, ready: float) -> None:
        self.process = process
        self.port = port
        self.http_port = http_port
        #: Seconds from its start until it was ready.
        self.ready = ready

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def redis_commands(self) -> int:
        """Returns the number of commands that it has sent to Redis. A script counts as one."""
        return int(Client(self.port).info()["redis_commands"])

    def resident_kilobytes(self) -> int:
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        sys.exit("benchmark: /proc does not show the memory of the sidecar")

    def processor_seconds(self) -> float:
        return processor_seconds(self.process)


class Rig:
    """A Redis and sidecars in a fresh directory. All of them stop when the context ends."""

    def __init__(self, configuration: str = CONFIGURATION) -> None:
        """`configuration` is the YAML of the sidecars."""
        self.configuration = configuration
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="interlock-bench-"))
        self.processes: list[subprocess.Popen[Any]] = []
        self.started = 0
        self.redis_port = free_port()

    @property
    def redis_url(self) -> str:
        return f"redis://127.0.0.1:{self.redis_port}"

    def __enter__(self) -> Self:
        try:
            (self.folder / "services.yaml").write_text(self.configuration)
            self.start_redis()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start_redis(self) -> None:
        words = ["--port", self.redis_port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.redis = self.start("redis", "redis-server", *words, "--dir", self.folder)
        wait_until(lambda: Client(self.redis_port).command("PING"), "the start of redis-server")

    def start(self, name: str, *command: object, **options: Any) -> subprocess.Popen[Any]:
        """Starts a process. Its output goes to a log, unless `options` for Popen redirect it."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen([str(word) for word in command], **{"stdout": log, "stderr": log, **options})
        self.processes.append(process)
        return process

    def start_sidecar(
        self, configuration: pathlib.Path | None = None, binary: pathlib.Path = BINARY, port: int | None = None
    ) -> Sidecar:
        """Starts a sidecar and waits until it is ready. `configuration` is a file; the default is that of the rig.

        port: the port of its RESP API; by default any.
        """
        self.started += 1
        name, port, http_port = f"sidecar-{self.started}", port or free_port(), free_port()
        begin = time.monotonic()
        process = self.start(
            name,
            binary,
            "serve",
            "--config",
            configuration or self.folder / "services.yaml",
            "--redis",
            self.redis_url,
            "--resp",
            f"127.0.0.1:{port}",
            "--http",
            f"127.0.0.1:{http_port}",
        )
        log = self.folder / f"{name}.log"
        wait_until(lambda: b"is ready" in log.read_bytes(), "the start of the sidecar")
        return Sidecar(process, port, http_port, time.monotonic() - begin)

    def start_fleet(self, count: int, binary: pathlib.Path = BINARY) -> list[Sidecar]:
        """Starts sidecars and waits until each has subscribed to the events, because earlier events are lost."""
        sidecars = [self.start_sidecar(binary=binary) for _ in range(count)]
        redis = Client(self.redis_port)
        wait_until(
            lambda: int(redis.command("PUBSUB", "NUMSUB", "interlock:events")[1]) == count,
            "the subscription of every sidecar",
        )
        return sidecars

    def stop(self, process: subprocess.Popen[Any]) -> None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.processes.remove(process)

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(list(self.processes)):
            self.stop(process)
        shutil.rmtree(self.folder, ignore_errors=True)
