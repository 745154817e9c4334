"""Runs the load generators: redis-benchmark, InterlockBenchmarks, and those of `peers`."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from rig.client import Command
from rig.servers import RELEASE, ROOT

Figures = dict[str, Any]
"""The figures that a load generator prints as JSON."""
Plot = dict[str, Any]
"""The input of `figures.draw` for one file: `file`, `title`, `sizes` and `lines`."""

GENERATOR = RELEASE / "InterlockBenchmarks"
PYTHON = ROOT / ".venv" / "bin" / "python"
#: Programs in Python are modules of these packages.
PACKAGES = ROOT / "Benchmarks"
PEERS = ("redis-py", "python-redis-lock")
#: Their names for pip.
LIBRARIES = ("redis", "python-redis-lock", "limits", "pybreaker")


def missing() -> str | None:
    """Returns what must be built or installed to measure locks, or None."""
    if not GENERATOR.exists():
        return "InterlockBenchmarks is not built; `make bench` builds it"
    if subprocess.run([PYTHON, "-c", "import redis, redis_lock"], capture_output=True).returncode != 0:
        return f"{PYTHON} lacks redis and python-redis-lock; `make bench` installs them"
    return None


def missing_library(library: str) -> str | None:
    """Returns why this Python library cannot be measured here, or None if it can."""
    try:
        found = subprocess.run([PYTHON, "-c", f"import {library}"], capture_output=True)
    except FileNotFoundError:
        return f"there is no {PYTHON.relative_to(ROOT)}; `make bench` creates it"
    return (
        None
        if found.returncode == 0
        else f"{PYTHON.relative_to(ROOT)} has no {library}; `make bench` installs it if it is available"
    )


def output(
    *words: object,
    seconds: float,
    folder: pathlib.Path | None = None,
    stdin: str = "",
    accepted: Collection[int] = (0,),
) -> str:
    """Runs a program in `folder` with the standard input `stdin`, and returns its output. Its exit code must be one of
    `accepted`.

    Kills the program and its children when it takes longer, or when this program is interrupted.
    """
    command = [str(word) for word in words]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        start_new_session=True,
    )
    try:
        printed, errors = process.communicate(stdin, timeout=seconds)
    except BaseException as error:
        # Its own session: the group has only this program and its children. After Ctrl-C, communicate() waits a moment,
        # so the program may be gone.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            sys.exit(f"benchmark: not done within {seconds:.0f} s: {' '.join(command)}")
        raise
    if process.returncode not in accepted:
        sys.exit(f"benchmark: {' '.join(command)}\n{errors[-1000:]}")
    return printed


def redis_benchmark(
    port: int, command: Command, clients: int = 50, pipeline: int = 1, requests: int = 100_000, names: int | None = None
) -> float:
    """Returns requests per second."""
    words: list[object] = ["redis-benchmark", "-p", port, "-c", clients, "-P", pipeline, "-n", requests, "-q"]
    if names:
        words += ["-r", names]
    printed = output(*words, *command, seconds=120)
    found = re.findall(r"([\d.]+) requests per second", printed)
    if not found:
        sys.exit(f"benchmark: redis-benchmark printed no figure: {printed[-500:]}")
    return float(found[-1])


def wrk(url: str, script: pathlib.Path, connections: int, seconds: float) -> Figures:
    """Runs wrk with one thread. Its script prints the figures as one line of JSON, as `peers/proxies/wrk.lua` does."""
    words = ["wrk", "--threads", 1, "--connections", connections, "--duration", f"{seconds:.0f}s", "--timeout", "5s"]
    printed = output(*words, "--script", script, url, seconds=seconds + 30)
    return json.loads(printed.splitlines()[-1])


class Load(NamedTuple):
    """Requests of redis-benchmark."""

    label: str
    command: Command
    #: At a scale of 100 %.
    requests: int
    clients: int = 50
    pipeline: int = 1
    #: The number of names to choose from; None if the command has no name.
    names: int | None = None

    def rate(self, port: int, scale: float) -> float:
        """Runs redis-benchmark. Returns requests per second."""
        return redis_benchmark(
            port, self.command, self.clients, self.pipeline, max(1, int(self.requests * scale / 100)), self.names
        )


def run_generator(figure: str, *options: object, seconds: float, generator: pathlib.Path = GENERATOR) -> Figures:
    """Runs one load generator of InterlockBenchmarks."""
    return json.loads(output(generator, figure, *options, "--seconds", seconds, seconds=seconds + 60))


def peer(library: str, port: int, callers: int, seconds: float, *options: object) -> Figures:
    """Runs `peers.lock_callers`."""
    return python(
        "peers.lock_callers",
        library,
        "--port",
        port,
        "--callers",
        callers,
        "--seconds",
        seconds,
        *options,
        seconds=seconds,
    )


def callers(kind: str, port: int, callers: int, seconds: float, *options: object) -> Figures:
    """Runs `peers.decision_callers`."""
    return python(
        "peers.decision_callers",
        kind,
        "--port",
        port,
        "--callers",
        callers,
        "--seconds",
        seconds,
        *options,
        seconds=seconds,
    )


def python(module: str, *words: object, seconds: float) -> Figures:
    """Runs a module in the virtual environment."""
    return json.loads(output(PYTHON, "-m", module, *words, seconds=seconds + 60, folder=PACKAGES))


def draw(plots: Sequence[Plot], folder: pathlib.Path) -> None:
    """Writes the plots of a `Table` to a directory."""
    output(PYTHON, "-m", "figures.draw", folder, seconds=120, folder=PACKAGES, stdin=json.dumps(plots))


def peer_versions() -> str:
    program = (
        "import importlib.metadata as m; print('; '.join(f'{n} {m.version(n)}' for n in "
        f"{LIBRARIES!r} if any(m.distributions(name=n))))"
    )
    return output(PYTHON, "-c", program, seconds=20).strip()
