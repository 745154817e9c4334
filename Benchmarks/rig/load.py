"""The programs that make load: redis-benchmark, this package's own, and the peers'. Each is run to its end."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from typing import NamedTuple

from rig.servers import RELEASE, ROOT

GENERATOR = RELEASE / "InterlockBenchmarks"
PYTHON = ROOT / ".venv" / "bin" / "python"
#: Where the packages of the programs below are.
PACKAGES = ROOT / "Benchmarks"
PEERS = ("redis-py", "python-redis-lock")
#: As they are installed.
LIBRARIES = ("redis", "python-redis-lock", "limits", "pybreaker", "matplotlib")


def missing():
    """What has to be built or installed before locks can be measured; None: nothing."""
    if not GENERATOR.exists():
        return "build first: swift build -c release --product InterlockBenchmarks"
    if subprocess.run([PYTHON, "-c", "import redis, redis_lock"], capture_output=True).returncode != 0:
        return f"{PYTHON} lacks redis and python-redis-lock; `make bench` installs them"
    return None


def lacks(library):
    """Why a library of Python cannot be measured here; None: it can."""
    try:
        found = subprocess.run([PYTHON, "-c", f"import {library}"], capture_output=True)
    except FileNotFoundError:
        return f"there is no {PYTHON.relative_to(ROOT)}; `make bench` makes it"
    return None if found.returncode == 0 else f"{PYTHON.relative_to(ROOT)} has no {library}; `make bench` installs it where it can be had"


def output(*words, seconds, folder=None, given="", accepted=(0,)):
    """What a program prints that runs in a folder, reads what it is given, and ends with one of the accepted exit codes. It and its
    children are stopped when it takes longer, or when this one is."""
    words = [str(word) for word in words]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, start_new_session=True)
    try:
        printed, complaints = process.communicate(given, timeout=seconds)
    except BaseException as error:
        # A session of its own: the group is the program and its children, and nobody else.
        # After Ctrl-C, communicate() waits for it a moment, so that it may be gone.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            sys.exit(f"benchmark: not done within {seconds:.0f} s: {' '.join(words)}")
        raise
    if process.returncode not in accepted:
        sys.exit(f"benchmark: {' '.join(words)}\n{complaints[-1000:]}")
    return printed


def redis_benchmark(port, command, clients=50, pipeline=1, requests=100_000, names=None):
    """Requests per second."""
    words = ["redis-benchmark", "-p", port, "-c", clients, "-P", pipeline, "-n", requests, "-q"]
    if names:
        words += ["-r", names]
    printed = output(*words, *command, seconds=120)
    found = re.findall(r"([\d.]+) requests per second", printed)
    if not found:
        sys.exit(f"benchmark: redis-benchmark printed no figure: {printed[-500:]}")
    return float(found[-1])


class Load(NamedTuple):
    """What redis-benchmark asks of a server, over and over."""

    what: str
    command: tuple
    #: At a scale of 100.
    requests: int
    clients: int = 50
    pipeline: int = 1
    #: How many names it chooses from; None: the command has none.
    names: int | None = None

    def rate(self, port, scale):
        """Requests per second."""
        return redis_benchmark(port, self.command, self.clients, self.pipeline, max(1, int(self.requests * scale / 100)), self.names)


def own(figure, *options, seconds, generator=GENERATOR):
    """The figures of one of this package's load generators."""
    return json.loads(output(generator, figure, *options, "--seconds", seconds, seconds=seconds + 60))


def peer(library, port, callers, seconds, *options):
    """The same of another library, with so many processes on one lock."""
    return python("peers.lock_callers", library, "--port", port, "--callers", callers, "--seconds", seconds, *options, seconds=seconds)


def callers(kind, port, callers, seconds, *options):
    """How many decisions so many processes got, of `peers.decision_callers`."""
    return python("peers.decision_callers", kind, "--port", port, "--callers", callers, "--seconds", seconds, *options, seconds=seconds)


def python(module, *words, seconds):
    """The figures of a program that needs the virtual environment."""
    return json.loads(output(PYTHON, "-m", module, *words, seconds=seconds + 60, folder=PACKAGES))


def draw(plots, folder):
    """Writes plots, as `Table` has them, as files."""
    output(PYTHON, "-m", "figures.draw", folder, seconds=120, folder=PACKAGES, given=json.dumps(plots))


def peer_versions():
    program = "import importlib.metadata as m; print('; '.join(f'{n} {m.version(n)}' for n in " \
        f"{LIBRARIES!r} if any(m.distributions(name=n))))"
    return output(PYTHON, "-c", program, seconds=20).strip()
