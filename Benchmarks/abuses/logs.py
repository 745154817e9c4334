"""A blocked log. The sidecar answers as before, shuts down in time, and counts the dropped lines."""

import fcntl
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator

from abuses.target import DEFAULT, OPERATOR, WITNESS, Case, Target, start
from abuses.trial import Finding, Stage, Trial
from abuses.watch import bound, watch
from rig.client import Client

#: The seconds for which the log is blocked, and the maximum until the sidecar has ended.
SECONDS, END = 60, 10
#: Bytes of the pipe.
PIPE = 4096
DROPPED = re.compile(r"^(interlock_\w*log\w*dropped\w*)(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)


def force(target: Target) -> Iterator[None]:
    """Forces breakers, since each change is a log line."""
    client = Client(target.port)
    client.socket.settimeout(30)
    client.command("AUTH", OPERATOR)
    number = 0
    while True:
        yield
        client.command("BREAKER.FORCE", f"service-{number % 400:03}", ("DISABLED", "AUTO")[number // 400 % 2])
        number += 1


def dropped(target: Target) -> float:
    """Returns the dropped lines by the sidecar's metric, or -1 without one."""
    request = urllib.request.Request(f"http://127.0.0.1:{target.http_port}/metrics", headers={"X-Api-Key": WITNESS})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            found = DROPPED.findall(answer.read().decode())
    except OSError:
        return -1
    return sum(float(value) for _, value in found) if found else -1


def run(stage: Stage) -> Iterator[Finding]:
    unread, stderr = os.pipe()
    fcntl.fcntl(stderr, fcntl.F_SETPIPE_SZ, PIPE)
    target = start(stage.rig, stage.binary, DEFAULT, stage.before, stdout=subprocess.DEVNULL, stderr=stderr)
    os.close(stderr)
    case = Case("log", "breakers that are forced back and forth", force)
    result = watch(case, target, stage.rig.redis_port, stage.seconds(SECONDS))
    maximum = bound(result.before.p99)
    yield Finding(
        "p99 of another's `LIMIT.TAKE`",
        f"{result.during.p99:.2f} ms",
        f"≤ {maximum:.1f} ms",
        result.during.p99 <= maximum,
        f"before {result.before.p99:.2f} ms; Redis's client {result.redis.p99:.2f}",
    )
    errors = f"{result.probes.maximum:.0f} ms; {len(result.errors)}"
    yield Finding(
        "slowest liveness probe; errors and lost leases of others",
        errors,
        "≤ 1,000 ms; 0",
        result.probes.maximum <= 1000 and not result.errors,
    )
    count = dropped(target)
    yield Finding("lines that were dropped, by the metric", f"{count:,.0f}", "> 0", count > 0)
    begin = time.monotonic()
    target.process.send_signal(signal.SIGTERM)
    try:
        target.process.wait(END + 5)
    except subprocess.TimeoutExpired:
        target.process.kill()
    took = time.monotonic() - begin
    yield Finding("its end after SIGTERM", f"{took:.1f} s", f"≤ {END} s", took <= END)
    os.close(unread)
    stage.rig.stop(target.process)


TRIALS = [Trial("log", "a log that nobody reads", run)]
