"""The programs that make load: redis-benchmark, this package's own, and the peers'. Each is run to its end."""

import json
import os
import re
import signal
import subprocess
import sys

from rig import RELEASE, ROOT

GENERATOR = RELEASE / "InterlockBenchmarks"
PYTHON = ROOT / ".venv" / "bin" / "python"
PEERS = ("redis-py", "python-redis-lock")


def missing():
    """What has to be built or installed before locks can be measured; None: nothing."""
    if not GENERATOR.exists():
        return "build first: swift build -c release --product InterlockBenchmarks"
    if subprocess.run([PYTHON, "-c", "import redis, redis_lock"], capture_output=True).returncode != 0:
        return f"{PYTHON} lacks redis and python-redis-lock; `make bench` installs both"
    return None


def output(*words, seconds):
    """What a program prints. It and its children are stopped when it takes longer, or when this one is."""
    words = [str(word) for word in words]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        printed, complaints = process.communicate(timeout=seconds)
    except BaseException as error:
        # A session of its own: the group is the program and its children, and nobody else.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            sys.exit(f"benchmark: not done within {seconds:.0f} s: {' '.join(words)}")
        raise
    if process.returncode != 0:
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


def own(figure, *options, seconds):
    """The figures of one of this package's load generators."""
    return json.loads(output(GENERATOR, figure, *options, "--seconds", seconds, seconds=seconds + 60))


def peer(library, redis_port, callers, seconds):
    """The same of another library, with so many processes on one lock."""
    return json.loads(output(
        PYTHON, ROOT / "Benchmarks" / "peers.py", library, "--port", redis_port, "--callers", callers,
        "--seconds", seconds, seconds=seconds + 60))


def peer_versions():
    program = "import importlib.metadata as m; print(f\"redis-py {m.version('redis')}; " \
        "python-redis-lock {m.version('python-redis-lock')}\")"
    return output(PYTHON, "-c", program, seconds=20).strip()
