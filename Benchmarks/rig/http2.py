"""HTTP/2 frames that are built once, and connections that keep many streams in flight."""

import select
import socket
import struct

from rig.hose import PATIENCE, READ, connect

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 2, 3, 4, 6, 7, 8
#: A type of frame that is not defined. Receivers ignore it.
UNKNOWN = 0xEE
ACK = END_STREAM = 1
END_HEADERS = 4
INITIAL_WINDOW_SIZE = 4
MOST = (1 << 31) - 1
#: The initial flow-control window of a connection.
FIRST_WINDOW = (1 << 16) - 1
#: Bytes of answers after which the connection's window is widened again.
WIDEN = 1 << 29
HEAD = struct.Struct("!BHBBI")


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return HEAD.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


#: The preface, and windows that no answer fills.
GREETING = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + frame(SETTINGS, payload=struct.pack("!HI", INITIAL_WINDOW_SIZE, MOST))
    + frame(WINDOW_UPDATE, payload=struct.pack("!I", MOST - FIRST_WINDOW))
)


def text(value: str) -> bytes:
    """A string of HPACK, of at most 126 bytes and without Huffman's code."""
    data = value.encode()
    assert len(data) < 127
    return bytes([len(data)]) + data


def fields(path: str, *more: tuple[str, str], method: str = "GET") -> bytes:
    """The fields of a request, encoded without touching HPACK's dynamic table."""
    # Indices of RFC 7541, appendix A.
    head = {"GET": b"\x82", "POST": b"\x83"}[method] + b"\x86" + b"\x04" + text(path) + b"\x01" + text("localhost")
    return head + b"".join(b"\x00" + text(name) + text(value) for name, value in more)


class Streams:
    """One connection with `at_once` streams in flight; each ends with its answer, and another begins."""

    def __init__(self, port: int, request: bytes, at_once: int) -> None:
        """`request` are the fields of each request, which has no body."""
        self.port = port
        self.request = request
        self.at_once = at_once
        self.open()

    def open(self) -> None:
        self.socket: socket.socket = connect(self.port)
        self.out = GREETING
        self.rest = b""
        #: Bytes of the present frame that are still to come, and are dropped.
        self.skipped = 0
        self.received = 0
        self.in_flight = 0
        self.next = 1

    def fileno(self) -> int:
        return self.socket.fileno()

    def turn(self, seconds: float = PATIENCE) -> None:
        """Begins the streams that there is room for, sends and reads."""
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
        while self.in_flight < self.at_once:
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
        dropped = min(self.skipped, len(data))
        self.skipped -= dropped
        data = self.rest + data[dropped:]
        place = 0
        while len(data) - place >= HEAD.size:
            high, low, kind, flags, _ = HEAD.unpack_from(data, place)
            length = high << 16 | low
            place += HEAD.size
            if kind == RESET or (kind in (DATA, HEADERS) and flags & END_STREAM):
                self.in_flight -= 1
            elif kind == SETTINGS and not flags & ACK:
                self.out += frame(SETTINGS, ACK)
            elif kind == GOAWAY:
                return False
            place += length
            if place > len(data):
                self.skipped = place - len(data)
                place = len(data)
        self.rest = data[place:]
        return True
