"""Locks next to a saturated proxy: the latency of another client's calls, and its lost leases."""

import pathlib
import re
import shutil
import socket
import string
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

from peers import proxy
from rig import load
from rig.bystander import Bystander, figures
from rig.servers import Rig, Sidecar, free_port, print_line, wait_until

CONFIGURATION = ""
#: Turns of the other client in a second: each acquires and releases a lock, and renews another.
RATE = 500
LARGE = 1 << 20
#: Seconds of load before the other client's calls count.
WARM_UP = 0.5
#: Concurrent requests of h2load, and their connections if they are HTTP/2 streams.
CONCURRENCY, CONNECTIONS = 1_000, 10
#: The start of an HTTP/2 connection: the preface, and settings that change nothing.
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
COUNTS = re.compile(r"(\d+) (succeeded|failed|4xx|5xx)")


class Shape(NamedTuple):
    label: str
    #: The path at the upstream.
    path: str = "/"
    is_encrypted: bool = False
    #: True if h2load generates the load.
    uses_h2load: bool = False
    #: True if h2load uses HTTP/2.
    is_multiplexed: bool = False


SHAPES = (
    Shape("1 KB"),
    Shape("1 MB", path="/large"),
    Shape("1 KB by TLS", is_encrypted=True),
    Shape(f"1 KB, {CONCURRENCY:,} connections", uses_h2load=True),
    Shape(
        f"1 KB, {CONCURRENCY:,} streams of HTTP/2, or connections where it is not spoken",
        uses_h2load=True,
        is_multiplexed=True,
    ),
)


def tail(rig: Rig, binary: pathlib.Path, shape: Shape, seconds: float) -> float:
    """Returns the p99 of the other client's calls, in µs. Raises RuntimeError for an error or a lost lease."""
    upstream = start_upstream(rig)
    sidecar = start_sidecar(rig, binary, upstream.port, shape)
    try:
        bystander = Bystander(sidecar.port, 1 / RATE, 1 / RATE, shape.is_encrypted)
        begin = time.monotonic_ns()
        served = saturate(sidecar, shape, seconds)
        end = time.monotonic_ns()
        bystander.stop()
    finally:
        rig.stop(sidecar.process)
        if upstream.process:
            rig.stop(upstream.process)
    if served["refused"] or served["broken"] or not served["requests"]:
        raise RuntimeError(f"the proxy did not serve all of its load: {served}")
    if bystander.errors or bystander.lost:
        raise RuntimeError(f"another client lost {bystander.lost} leases, and met {bystander.errors}")
    begin += int(WARM_UP * 1e9)
    return figures(
        [turn.microseconds for turn in bystander.turns if begin <= turn.at < end and turn.call != "PING"]
    ).p99


def rates(rig: Rig, binary: pathlib.Path, shape: Shape, seconds: Sequence[int]) -> list[float]:
    """Returns the requests per second that the proxy serves in each run. Raises RuntimeError if it refuses one."""
    upstream = start_upstream(rig)
    sidecar = start_sidecar(rig, binary, upstream.port, shape)
    try:
        saturate(sidecar, shape, 1)
        served = [saturate(sidecar, shape, each) for each in seconds]
    finally:
        rig.stop(sidecar.process)
        if upstream.process:
            rig.stop(upstream.process)
    if any(run["refused"] or run["broken"] for run in served):
        raise RuntimeError(f"the proxy did not serve all of its load: {served}")
    return [run["requests"] / each for run, each in zip(served, seconds, strict=True)]


def start_upstream(rig: Rig) -> proxy.Side:
    port, folder = free_port(), rig.folder
    (folder / "large").write_bytes(b"x" * LARGE)
    # nginx' worker is another user.
    folder.chmod(0o711)
    template = string.Template((proxy.CONFIGURATIONS / "nginx.conf").read_text())
    (folder / "nginx.conf").write_text(template.substitute(upstream=port, folder=folder, body=proxy.BODY))
    process = rig.start("nginx", proxy.nginx(), "-p", folder, "-e", "stderr", "-c", folder / "nginx.conf")
    side = proxy.Side(port, "/", process)
    wait_until(lambda: proxy.answer(side), "the start of nginx")
    return side


def start_sidecar(rig: Rig, binary: pathlib.Path, upstream: int, shape: Shape) -> Sidecar:
    template = string.Template((proxy.CONFIGURATIONS / "interlock.yaml").read_text())
    text = template.substitute(upstream=upstream)
    if shape.is_encrypted:
        key, certificate = rig.folder / "key.pem", rig.folder / "certificate.pem"
        request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        names = ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run([*request, *names], check=True, capture_output=True)
        key.chmod(0o600)
        text += f"listen: {{ tls: {{ certificate: {certificate}, key: {key} }} }}\n"
    (rig.folder / "proxy.yaml").write_text(text)
    return rig.start_sidecar(rig.folder / "proxy.yaml", binary)


def saturate(sidecar: Sidecar, shape: Shape, seconds: float) -> load.Figures:
    scheme = "https" if shape.is_encrypted else "http"
    side = proxy.Side(sidecar.http_port, f"/proxy/catalog{shape.path}")
    if shape.uses_h2load:
        return run_h2load(side, seconds, shape.is_multiplexed)
    return proxy.wrk(side, seconds, url=f"{scheme}://127.0.0.1:{side.port}{side.path}")


def run_h2load(side: proxy.Side, seconds: float, is_multiplexed: bool) -> load.Figures:
    """Runs h2load without TLS."""
    if not shutil.which("h2load"):
        raise RuntimeError("h2load not found; `make bench` installs it")
    words = ["--h1", "--clients", CONCURRENCY]
    if is_multiplexed and speaks_http2(side.port):
        words = ["--clients", CONNECTIONS, "--max-concurrent-streams", CONCURRENCY // CONNECTIONS]
    elif is_multiplexed:
        print_line(f"  this one speaks no HTTP/2: {CONCURRENCY:,} connections of HTTP/1.1 instead")
    printed = load.output("h2load", *words, "--duration", f"{seconds:.0f}", side.url, seconds=seconds + 30)
    return parse_counts(printed)


def parse_counts(printed: str) -> load.Figures:
    """Parses h2load's output, which counts error responses and missing responses as failed."""
    counts = {name: int(count) for count, name in COUNTS.findall(printed)}
    refused = counts["4xx"] + counts["5xx"]
    return {"requests": counts["succeeded"], "refused": refused, "broken": counts["failed"] - refused}


def speaks_http2(port: int) -> bool:
    """Returns whether the server answers the greeting with settings, which are a frame of type 4."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(GREETING)
        return connection.recv(9)[3:4] == b"\4"
