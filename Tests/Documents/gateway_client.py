"""Clients that time single round trips over raw sockets, because a library would take longer than the sidecar."""

import socket
import struct
from collections.abc import Callable

from servers import PATIENCE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: Kinds of frames (RFC 9113, section 6).
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
#: The header of a frame: its length in three bytes, kind, flags and stream.
HEAD = struct.Struct(">BHBBI")
FRAME_HEAD = HEAD.size
#: The largest frame that each side accepts by default.
LONGEST_FRAME = 1 << 14
#: The default window, before the other side announces its own.
FIRST_WINDOW = (1 << 16) - 1
INITIAL_WINDOW_SIZE = 4
CANCEL = 8

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"
SHOULD_RATE_LIMIT = f"/{SERVICE}/ShouldRateLimit"
HEALTH_CHECK = "/grpc.health.v1.Health/Check"


#: Kind, flags, stream and payload.
Frame = tuple[int, int, int, bytes]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def take_frames(data: bytearray) -> list[Frame]:
    """Removes the complete frames at the start of `data`."""
    frames: list[Frame] = []
    start = 0
    while len(data) - start >= FRAME_HEAD:
        high, low, kind, flags, stream = HEAD.unpack_from(data, start)
        begin = start + FRAME_HEAD
        end = begin + (high << 16) + low
        if len(data) < end:
            break
        frames.append((kind, flags, stream, bytes(data[begin:end])))
        start = end
    del data[:start]
    return frames


def settings(payload: bytes) -> dict[int, int]:
    return {
        int.from_bytes(payload[at : at + 2]): int.from_bytes(payload[at + 2 : at + 6])
        for at in range(0, len(payload), 6)
    }


def request_head(path: str) -> bytes:
    """Encodes the fields of a call without adding any to the other side's table (RFC 7541, section 6.2.2)."""

    def text(value: str) -> bytes:
        return bytes((len(value),)) + value.encode()

    # POST, http, :path, :authority and content-type have numbers in the static table.
    known = b"\x83\x86\x04" + text(path) + b"\x01" + text("localhost") + b"\x0f\x10" + text("application/grpc")
    return known + b"\x00" + text("te") + text("trailers")


def message(body: bytes) -> bytes:
    """Returns the payload of DATA: an uncompressed message after its flag and length."""
    return b"\x00" + len(body).to_bytes(4) + body


NO_MESSAGE = message(b"")


class RoundTrips:
    """Sends one request at a time over one connection; the caller knows the protocol."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def receive(self) -> bytes:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the connection was closed")
        return data

    def exchange(self, request: bytes, is_whole: Callable[[bytes], bool]) -> bytes:
        self.socket.sendall(request)
        data = self.receive()
        while not is_whole(data):
            data += self.receive()
        return data

    def close(self) -> None:
        self.socket.close()


class GatewayClient(RoundTrips):
    """Repeats the same gRPC call, one at a time, and accepts any response."""

    #: The first bytes of the second and the last frame of a response, after their lengths.
    MESSAGE = bytes((DATA, 0))
    TRAILERS = bytes((HEADERS, END_HEADERS | END_STREAM))

    def __init__(self, port: int, path: str, body: bytes) -> None:
        super().__init__(port)
        most = ((1 << 31) - 1 - FIRST_WINDOW).to_bytes(4)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(WINDOW_UPDATE, 0, 0, most))
        head = frame(HEADERS, END_HEADERS, 0, request_head(path))
        data = frame(DATA, END_STREAM, 0, message(body))
        #: The stream's number is between them in both frames.
        self.parts = head[:5], head[FRAME_HEAD:] + data[:5], data[FRAME_HEAD:]
        self.stream = -1
        self.received = bytearray()

    def ask(self) -> bytes:
        """Returns the response's message, or an empty one."""
        self.stream += 2
        self.socket.sendall(self.stream.to_bytes(4).join(self.parts))
        data = self.receive()
        return self.usual(data) or self.whole(data)

    def usual(self, data: bytes) -> bytes:
        """Returns a response's message if it came alone and in one piece. The time counts as the sidecar's."""
        if len(data) < 3 * FRAME_HEAD or self.received:
            return b""
        begin = FRAME_HEAD + data[2]
        end = begin + FRAME_HEAD + int.from_bytes(data[begin : begin + 3])
        last = data[end : end + 5]
        if data[3] != HEADERS or data[begin + 3 : begin + 5] != self.MESSAGE or last[3:] != self.TRAILERS:
            return b""
        return data[begin + FRAME_HEAD + len(NO_MESSAGE) : end] if len(data) == end + FRAME_HEAD + last[2] else b""

    def whole(self, data: bytes) -> bytes:
        """Returns the same, and handles other frames too."""
        self.received += data
        answer = b""
        is_over = False
        while not is_over:
            for kind, flags, stream, payload in take_frames(self.received):
                if stream != self.stream:
                    self.other(kind, flags, payload)
                elif kind == DATA:
                    answer += payload
                elif kind == RESET:
                    raise ConnectionResetError("the sidecar reset the call")
                is_over |= stream == self.stream and bool(flags & END_STREAM)
            if not is_over:
                self.received += self.receive()
        return answer[len(NO_MESSAGE) :]

    def other(self, kind: int, flags: int, payload: bytes) -> None:
        if kind in (SETTINGS, PING) and not flags & ACK:
            self.socket.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
        elif kind == GOAWAY:
            raise ConnectionResetError(f"the sidecar sent GOAWAY with error {int.from_bytes(payload[4:8])}")
