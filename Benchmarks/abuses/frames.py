"""HTTP/2 frames that request nothing: unknown types, connection frames, and streams that are reset immediately."""

import struct
from collections.abc import Callable, Iterator

from abuses.target import Abuse, Case, Target
from rig import http2
from rig.sender import Sender, repeated

#: The number of streams that are built at a time.
BATCH = 512


def web(target: Target) -> int:
    return target.http_port


def grpc(target: Target) -> int:
    return target.grpc_port


def flood(frame: bytes, count: int, port: Callable[[Target], int] = web) -> Abuse:
    def abuse(target: Target) -> Iterator[None]:
        sender = Sender(port(target), count, repeated(frame), http2.GREETING)
        while True:
            yield
            sender.turn()

    return abuse


def resets(count: int) -> Abuse:
    """Sends streams with rising numbers, and resets each immediately."""

    def abuse(target: Target) -> Iterator[None]:
        fields, cancel = http2.fields("/healthz"), struct.pack("!I", 8)
        started = [0] * count

        def greeting(number: int) -> bytes:
            started[number] = 0
            return http2.GREETING

        def batch(number: int) -> bytes:
            first = started[number]
            started[number] += BATCH
            return b"".join(
                http2.frame(http2.HEADERS, http2.END_STREAM | http2.END_HEADERS, stream, fields)
                + http2.frame(http2.RESET, 0, stream, cancel)
                for stream in range(2 * first + 1, 2 * (first + BATCH) + 1, 2)
            )

        sender = Sender(target.http_port, count, batch, greeting)
        while True:
            yield
            sender.turn()

    return abuse


UNKNOWN = http2.frame(http2.UNKNOWN)
CASES = [
    Case("h2-unknown-8", "frames of an unknown type, on 8 to the HTTP API", flood(UNKNOWN, 8)),
    Case("grpc-unknown-8", "frames of an unknown type, on 8 to the gRPC API", flood(UNKNOWN, 8, grpc)),
    Case("h2-ping-8", "PING frames, on 8", flood(http2.frame(http2.PING, 0, 0, bytes(8)), 8)),
    Case("h2-settings-8", "empty SETTINGS frames, on 8", flood(http2.frame(http2.SETTINGS), 8)),
    Case("h2-priority-8", "PRIORITY frames, on 8", flood(http2.frame(http2.PRIORITY, 0, 1, bytes(5)), 8)),
    Case("h2-window-8", "WINDOW_UPDATE frames, on 8", flood(http2.frame(http2.WINDOW_UPDATE, 0, 0, b"\0\0\0\1"), 8)),
    Case("h2-resets-4", "streams that are reset at once, on 4", resets(4)),
]
