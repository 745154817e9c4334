"""Silent connections that use up the sidecar's file descriptors. Probe paths still answer, and the log reports it."""

import re
import socket
import time
from collections.abc import Iterator

from abuses.target import FEW_FILES, WITNESS, Setup, start
from abuses.trial import Finding, Stage, Trial, log
from rig.client import Client
from rig.sender import connect
from rig.servers import print_line
from rig.witness import Port, ask

SETUP = Setup(files=FEW_FILES)
PATHS = "/healthz", "/readyz", "/metrics"
#: Seconds of the trial, and from one request to the next.
SECONDS, PACE = 60, 0.5
#: A log line about the open files, in any wording.
LINE = re.compile(r"descriptor|open.files|too many open|EMFILE", re.IGNORECASE)


def run(stage: Stage) -> Iterator[Finding]:
    target = start(stage.rig, stage.binary, SETUP, stage.before)
    log_length = len(log(stage, target))
    silent: list[socket.socket] = []
    slowest = failed = count = 0.0
    begin = time.monotonic()
    while time.monotonic() < begin + stage.seconds(SECONDS):
        for connection in silent:
            try:
                if connection.recv(1 << 16) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                continue
            except OSError:
                connection.close()
        silent = [connection for connection in silent if connection.fileno() >= 0]
        while len(silent) < 2 * FEW_FILES:
            silent.append(connect(target.port))
        for path in PATHS:
            requested_at = time.monotonic()
            count += 1
            try:
                failed += ask(Port(target.http_port, WITNESS), path) != 200
            except OSError:
                failed += 1
            slowest = max(slowest, time.monotonic() - requested_at)
        time.sleep(PACE)
    lines = [line for line in log(stage, target)[log_length:].splitlines() if LINE.search(line)]
    for line in lines[:3]:
        print_line(f"  logged: {line}")
    for connection in silent:
        connection.close()
    answered = f"{count - failed:.0f} of {count:.0f}, the slowest in {slowest * 1000:.0f} ms"
    yield Finding("answers of the three paths", answered, "all, ≤ 1,000 ms", not failed and slowest <= 1)
    maximum = 1 + int(stage.seconds(SECONDS) // 60)
    yield Finding("lines of the log", f"{len(lines)}", f"1 to {maximum}", 1 <= len(lines) <= maximum)
    time.sleep(0.5)
    try:
        client = Client(target.port)
        client.command("AUTH", WITNESS)
        is_back = client.command("PING") == b"PONG"
    except (OSError, RuntimeError):
        is_back = False
    yield Finding("a new client afterwards", "served" if is_back else "not served", "served", is_back)
    stage.rig.stop(target.process)


TRIALS = [Trial("descriptors", f"{2 * FEW_FILES} silent connections, with {FEW_FILES} descriptors", run)]
