"""Bodies that continue after an early response: how much of them is read."""

import select
import socket
import struct
import time
from collections.abc import Iterator

from abuses.target import DEFAULT, WITNESS, Target, start
from abuses.trial import Finding, Stage, Trial, bytes_read
from rig import http2
from rig.sender import BLOCK

MAX_READ = 64 << 10
SIZE = 64 << 20
SECONDS = 5


def head(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


LENGTH, KEY = f"Content-Length: {SIZE}", f"X-Api-Key: {WITNESS}"
CHUNKED = "Transfer-Encoding: chunked"
REQUESTS = {
    "400": b"GET  HTTP\r\n\r\n",
    "401": head("/v1/locks/a", LENGTH),
    "401, chunked": head("/v1/locks/a", CHUNKED),
    "404": head("/nothing", LENGTH, KEY),
    "413": head("/v1/locks/a", LENGTH, KEY),
    "413, chunked": head("/v1/locks/a", CHUNKED, KEY),
    "421": head("/v1/locks/a", LENGTH, KEY).replace(b"Host: localhost", b"Host: example.com"),
}


def read_after(target: Target, first: bytes, block: bytes, waits: bool) -> tuple[bytes, int]:
    """Returns the response to `first`, and the number of bytes read of the blocks after it."""
    with socket.create_connection(("127.0.0.1", target.http_port), timeout=5) as connection:
        connection.sendall(first)
        if not waits:
            # The response comes once the body exceeds its limit.
            connection.sendall(block)
        answer = connection.recv(1 << 16)
        read_before = bytes_read(target)
        connection.setblocking(False)
        remaining = memoryview(block)
        end = time.monotonic() + SECONDS
        # The client continues to send after the sidecar has closed its own direction.
        is_open = True
        while time.monotonic() < end:
            readable, writable, _ = select.select([connection] if is_open else [], [connection], [], 0.05)
            try:
                if readable and not connection.recv(1 << 16):
                    is_open = False
                if writable:
                    remaining = remaining[connection.send(remaining) :] or memoryview(block)
            except BlockingIOError:
                continue
            except OSError:
                break
        return answer, bytes_read(target) - read_before


def multiplexed(target: Target) -> int:
    """Does the same with an HTTP/2 stream, within its windows."""
    fields = http2.fields("/v1/locks/a", ("content-length", str(SIZE)), method="POST")
    begin = http2.GREETING + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, fields)
    with socket.create_connection(("127.0.0.1", target.http_port), timeout=5) as connection:
        connection.sendall(begin)
        time.sleep(0.2)
        read_before = bytes_read(target)
        connection.setblocking(False)
        # The windows of the connection and of its one stream.
        windows, rest, sent = [http2.FIRST_WINDOW] * 2, b"", 0
        data = http2.frame(http2.DATA, 0, 1, bytes(1 << 14))
        remaining = memoryview(b"")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and sent < SIZE:
            if not remaining and min(windows) >= 1 << 14:
                remaining, sent = memoryview(data), sent + (1 << 14)
                windows = [window - (1 << 14) for window in windows]
            readable, writable, _ = select.select([connection], [connection] if remaining else [], [], 0.05)
            try:
                if readable:
                    more = connection.recv(1 << 16)
                    if not more:
                        break
                    rest += more
                    while len(rest) >= 9:
                        high, low, kind, _, stream = http2.HEAD.unpack_from(rest)
                        size = 9 + (high << 16 | low)
                        if len(rest) < size:
                            break
                        if kind == http2.WINDOW_UPDATE:
                            windows[stream] += struct.unpack("!I", rest[9:13])[0]
                        rest = rest[size:]
                if writable:
                    remaining = remaining[connection.send(remaining) :]
            except BlockingIOError:
                continue
            except OSError:
                break
        return bytes_read(target) - read_before


def run(stage: Stage) -> Iterator[Finding]:
    target = start(stage.rig, stage.binary, DEFAULT, stage.before)
    time.sleep(1)
    # The sidecar's other traffic: heartbeats and replies of Redis.
    read_before = bytes_read(target)
    time.sleep(SECONDS)
    others = bytes_read(target) - read_before
    for name, request in REQUESTS.items():
        block = (b"10000\r\n" + bytes(1 << 16) + b"\r\n") * 4 if "chunked" in name else bytes(BLOCK)
        answer, count = read_after(target, request, block, waits=name != "413, chunked")
        count = max(0, count - others)
        holds = count <= MAX_READ and answer[9:12] == name[:3].encode()
        yield Finding(
            f"read after {name}", f"{count / 1024:,.0f} KiB", f"≤ {MAX_READ >> 10} KiB", holds, answer[9:12].decode()
        )
    count = max(0, multiplexed(target) - others)
    yield Finding("read after 401 of HTTP/2", f"{count / 1024:,.0f} KiB", f"≤ {MAX_READ >> 10} KiB", count <= MAX_READ)
    stage.rig.stop(target.process)


TRIALS = [Trial("bodies", f"bodies of {SIZE >> 20} MiB after an early answer", run)]
