"""Clients that time single round trips over raw sockets, because a library would be slower than the sidecar."""

import socket
import struct
from collections.abc import Callable

from servers import TIMEOUT

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: Kinds of frames (RFC 9113, section 6).
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
#: The header of a frame: a three-byte length, kind, flags and stream.
FRAME_HEADER = struct.Struct(">BHBBI")
FRAME_HEADER_SIZE = FRAME_HEADER.size
#: The maximum frame size that each side accepts by default.
MAX_FRAME_SIZE = 1 << 14
#: The default window, before the other side announces its own.
DEFAULT_WINDOW = (1 << 16) - 1
INITIAL_WINDOW_SIZE = 4
CANCEL = 8

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"
SHOULD_RATE_LIMIT = f"/{SERVICE}/ShouldRateLimit"
HEALTH_CHECK = "/grpc.health.v1.Health/Check"


#: Kind, flags, stream and payload.
Frame = tuple[int, int, int, bytes]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def pop_frames(data: bytearray) -> list[Frame]:
    """Removes the complete frames at the start of `data`."""
    frames: list[Frame] = []
    start = 0
    while len(data) - start >= FRAME_HEADER_SIZE:
        high, low, kind, flags, stream = FRAME_HEADER.unpack_from(data, start)
        begin = start + FRAME_HEADER_SIZE
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
    """Encodes the fields of a call without adding entries to the other side's table (RFC 7541, section 6.2.2)."""

    def text(value: str) -> bytes:
        return bytes((len(value),)) + value.encode()

    # POST, http, :path, :authority and content-type have numbers in the static table.
    known = b"\x83\x86\x04" + text(path) + b"\x01" + text("localhost") + b"\x0f\x10" + text("application/grpc")
    return known + b"\x00" + text("te") + text("trailers")


def message(body: bytes) -> bytes:
    """Returns the payload of DATA: an uncompressed message after its flag and length."""
    return b"\x00" + len(body).to_bytes(4) + body


NO_MESSAGE = message(b"")


class RoundTripClient:
    """Sends one request at a time over one connection. The caller implements the protocol."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def receive(self) -> bytes:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the connection was closed")
        return data

    def exchange(self, request: bytes, is_complete: Callable[[bytes], bool]) -> bytes:
        self.socket.sendall(request)
        data = self.receive()
        while not is_complete(data):
            data += self.receive()
        return data

    def close(self) -> None:
        self.socket.close()


class GatewayClient(RoundTripClient):
    """Repeats the same gRPC call, one at a time, and accepts any response."""

    #: The first bytes of the second and the last frame of a response, after their lengths.
    MESSAGE = bytes((DATA, 0))
    TRAILERS = bytes((HEADERS, END_HEADERS | END_STREAM))

    def __init__(self, port: int, path: str, body: bytes) -> None:
        super().__init__(port)
        increment = ((1 << 31) - 1 - DEFAULT_WINDOW).to_bytes(4)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(WINDOW_UPDATE, 0, 0, increment))
        head = frame(HEADERS, END_HEADERS, 0, request_head(path))
        data = frame(DATA, END_STREAM, 0, message(body))
        #: The stream's number is between them in both frames.
        self.parts = head[:5], head[FRAME_HEADER_SIZE:] + data[:5], data[FRAME_HEADER_SIZE:]
        self.stream = -1
        self.received = bytearray()

    def ask(self) -> bytes:
        """Returns the response's message, or an empty one."""
        self.stream += 2
        self.socket.sendall(self.stream.to_bytes(4).join(self.parts))
        data = self.receive()
        return self.message_of_single_read(data) or self.message_of_frames(data)

    def message_of_single_read(self, data: bytes) -> bytes:
        """Returns the message of a response that was read as one piece, without other frames.

        This is the fast path, because the client's time is part of the measurement.
        """
        if len(data) < 3 * FRAME_HEADER_SIZE or self.received:
            return b""
        begin = FRAME_HEADER_SIZE + data[2]
        end = begin + FRAME_HEADER_SIZE + int.from_bytes(data[begin : begin + 3])
        last = data[end : end + 5]
        if data[3] != HEADERS or data[begin + 3 : begin + 5] != self.MESSAGE or last[3:] != self.TRAILERS:
            return b""
        is_complete = len(data) == end + FRAME_HEADER_SIZE + last[2]
        return data[begin + FRAME_HEADER_SIZE + len(NO_MESSAGE) : end] if is_complete else b""

    def message_of_frames(self, data: bytes) -> bytes:
        """Returns the message of a response that was read in parts, or together with other frames."""
        self.received += data
        answer = b""
        is_over = False
        while not is_over:
            for kind, flags, stream, payload in pop_frames(self.received):
                if stream != self.stream:
                    self.handle_control_frame(kind, flags, payload)
                elif kind == DATA:
                    answer += payload
                elif kind == RESET:
                    raise ConnectionResetError("the sidecar reset the call")
                is_over |= stream == self.stream and bool(flags & END_STREAM)
            if not is_over:
                self.received += self.receive()
        return answer[len(NO_MESSAGE) :]

    def handle_control_frame(self, kind: int, flags: int, payload: bytes) -> None:
        if kind in (SETTINGS, PING) and not flags & ACK:
            self.socket.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
        elif kind == GOAWAY:
            raise ConnectionResetError(f"the sidecar sent GOAWAY with error {int.from_bytes(payload[4:8])}")
