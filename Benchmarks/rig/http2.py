"""HTTP/2 frames that are built once, and connections that keep many streams in flight."""

import select
import socket
import struct

from rig.sender import POLL_TIMEOUT, READ, connect

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 2, 3, 4, 6, 7, 8
#: A type of frame that is not defined. Receivers ignore it.
UNKNOWN = 0xEE
ACK = END_STREAM = 1
END_HEADERS = 4
INITIAL_WINDOW_SIZE = 4
MAX_WINDOW = (1 << 31) - 1
#: The initial flow-control window of a connection.
FIRST_WINDOW = (1 << 16) - 1
#: Bytes of answers after which the connection's window is increased again.
WIDEN = 1 << 29
HEAD = struct.Struct("!BHBBI")


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return HEAD.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


#: The preface, and windows that no response fills.
GREETING = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + frame(SETTINGS, payload=struct.pack("!HI", INITIAL_WINDOW_SIZE, MAX_WINDOW))
    + frame(WINDOW_UPDATE, payload=struct.pack("!I", MAX_WINDOW - FIRST_WINDOW))
)


def text(value: str) -> bytes:
    """Encodes a string of HPACK, of at most 126 bytes and without Huffman's code."""
    data = value.encode()
    assert len(data) < 127
    return bytes([len(data)]) + data


def fields(path: str, *more: tuple[str, str], method: str = "GET") -> bytes:
    """Encodes the fields of a request without HPACK's dynamic table."""
    # Indices of RFC 7541, appendix A.
    head = {"GET": b"\x82", "POST": b"\x83"}[method] + b"\x86" + b"\x04" + text(path) + b"\x01" + text("localhost")
    return head + b"".join(b"\x00" + text(name) + text(value) for name, value in more)


class Streams:
    """One connection with `concurrency` streams in flight; when one ends, another begins."""

    def __init__(self, port: int, request: bytes, concurrency: int) -> None:
        """`request` are the fields of each request, which has no body."""
        self.port = port
        self.request = request
        self.concurrency = concurrency
        self.open()

    def open(self) -> None:
        self.socket: socket.socket = connect(self.port)
        self.out = GREETING
        self.rest = b""
        #: Bytes of the current frame that have not arrived yet, and are discarded.
        self.remaining = 0
        self.received = 0
        self.in_flight = 0
        self.next = 1

    def fileno(self) -> int:
        return self.socket.fileno()

    def turn(self, seconds: float = POLL_TIMEOUT) -> None:
        """Starts as many streams as allowed, sends and reads."""
        self.begin()
        readable, writable, _ = select.select([self], [self] if self.out else [], [], seconds)
        try:
            if writable:
                self.out = self.out[self.socket.send(self.out) :]
            if readable:
                data = self.socket.recv(READ)
                if not data or not self.take(data):
                    raise ConnectionResetError
        except BlockingIOError:
            pass
        except OSError:
            self.socket.close()
            self.open()

    def begin(self) -> None:
        heads = []
        while self.in_flight < self.concurrency:
            heads.append(frame(HEADERS, END_STREAM | END_HEADERS, self.next, self.request))
            self.next += 2
            self.in_flight += 1
        if heads:
            self.out += b"".join(heads)

    def take(self, data: bytes) -> bool:
        """Counts the streams that have ended. Returns False if the server ends the connection."""
        self.received += len(data)
        if self.received > WIDEN:
            self.out += frame(WINDOW_UPDATE, payload=struct.pack("!I", self.received))
            self.received = 0
        discarded = min(self.remaining, len(data))
        self.remaining -= discarded
        data = self.rest + data[discarded:]
        position = 0
        while len(data) - position >= HEAD.size:
            high, low, kind, flags, _ = HEAD.unpack_from(data, position)
            length = high << 16 | low
            position += HEAD.size
            if kind == RESET or (kind in (DATA, HEADERS) and flags & END_STREAM):
                self.in_flight -= 1
            elif kind == SETTINGS and not flags & ACK:
                self.out += frame(SETTINGS, ACK)
            elif kind == GOAWAY:
                return False
            position += length
            if position > len(data):
                self.remaining = position - len(data)
                position = len(data)
        self.rest = data[position:]
        return True
