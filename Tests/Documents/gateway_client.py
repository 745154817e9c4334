"""Clients for timing single round trips, over raw sockets: a library would take longer than the sidecar."""

import socket
import struct
from collections.abc import Callable

from servers import PATIENCE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: Kinds of frames (RFC 9113, section 6).
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
#: Of a frame: its length in three bytes, kind, flags and stream.
HEAD = struct.Struct(">BHBBI")
FRAME_HEAD = HEAD.size
#: The largest that each side takes, unless it says otherwise.
LONGEST_FRAME = 1 << 14
#: How much may be on its way before the other side says how much it takes.
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
    """Removes the whole frames that `data` begins with."""
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
    """The fields of a call, none of which the other side has to remember (RFC 7541, section 6.2.2)."""

    def text(value: str) -> bytes:
        return bytes((len(value),)) + value.encode()

    # POST, http, :path, :authority and content-type have numbers in the static table.
    known = b"\x83\x86\x04" + text(path) + b"\x01" + text("localhost") + b"\x0f\x10" + text("application/grpc")
    return known + b"\x00" + text("te") + text("trailers")


def message(body: bytes) -> bytes:
    """What stands in DATA: not compressed, its length, and itself."""
    return b"\x00" + len(body).to_bytes(4) + body


NO_MESSAGE = message(b"")


class RoundTrips:
    """One request at a time over one connection, of a protocol that the caller knows."""

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
    """The same call of gRPC over and over, one at a time. It takes whatever comes."""

    #: How the second and the last frame of an answer begin, behind their lengths.
    MESSAGE = bytes((DATA, 0))
    TRAILERS = bytes((HEADERS, END_HEADERS | END_STREAM))

    def __init__(self, port: int, path: str, body: bytes) -> None:
        super().__init__(port)
        most = ((1 << 31) - 1 - FIRST_WINDOW).to_bytes(4)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(WINDOW_UPDATE, 0, 0, most))
        head = frame(HEADERS, END_HEADERS, 0, request_head(path))
        data = frame(DATA, END_STREAM, 0, message(body))
        #: The stream stands between them, in both frames.
        self.parts = head[:5], head[FRAME_HEAD:] + data[:5], data[FRAME_HEAD:]
        self.stream = -1
        self.received = bytearray()

    def ask(self) -> bytes:
        """The answer's message; nothing if there is none."""
        self.stream += 2
        self.socket.sendall(self.stream.to_bytes(4).join(self.parts))
        data = self.receive()
        return self.usual(data) or self.whole(data)

    def usual(self, data: bytes) -> bytes:
        """An answer's message if that came alone and in one piece; what this takes counts as the sidecar's."""
        if len(data) < 3 * FRAME_HEAD or self.received:
            return b""
        begin = FRAME_HEAD + data[2]
        end = begin + FRAME_HEAD + int.from_bytes(data[begin : begin + 3])
        last = data[end : end + 5]
        if data[3] != HEADERS or data[begin + 3 : begin + 5] != self.MESSAGE or last[3:] != self.TRAILERS:
            return b""
        return data[begin + FRAME_HEAD + len(NO_MESSAGE) : end] if len(data) == end + FRAME_HEAD + last[2] else b""

    def whole(self, data: bytes) -> bytes:
        """The same, whatever comes besides."""
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
                    raise ConnectionResetError("the sidecar has reset the call")
                is_over |= stream == self.stream and bool(flags & END_STREAM)
            if not is_over:
                self.received += self.receive()
        return answer[len(NO_MESSAGE) :]

    def other(self, kind: int, flags: int, payload: bytes) -> None:
        if kind in (SETTINGS, PING) and not flags & ACK:
            self.socket.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
        elif kind == GOAWAY:
            raise ConnectionResetError(f"the sidecar says goodbye, with error {int.from_bytes(payload[4:8])}")
