"""Clients that flood the gRPC API, each in a process of its own."""

import contextlib
import multiprocessing
import os
import select
import socket
import time
from collections.abc import Callable
from typing import NoReturn

from envoy.extensions.common.ratelimit.v3 import ratelimit_pb2
from envoy.service.ratelimit.v3 import rls_pb2

from gateway_client import (
    ACK,
    CANCEL,
    DATA,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LONGEST_FRAME,
    PING,
    PREFACE,
    RESET,
    SETTINGS,
    SHOULD_RATE_LIMIT,
    WINDOW_UPDATE,
    frame,
    message,
    request_head,
    settings,
    take_frames,
)
from servers import PATIENCE

DOMAIN = "speed"
#: The name of Envoy's generic_key.
KEY = "generic_key"
#: An unknown kind of frame, which must be ignored.
UNKNOWN = 0x2A
#: The number of frames or calls that a flood sends at once.
BATCH = 64
#: Unfinished calls of one connection: the most that are allowed before the sidecar announces its limit.
ENDLESS = 100
FIELDS = request_head(SHOULD_RATE_LIMIT)
LOG_FIELDS = request_head("/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs")


def body(descriptors: int = 1, value: str = "a") -> bytes:
    """Returns a request with this number of one-entry descriptors."""
    entry = ratelimit_pb2.RateLimitDescriptor.Entry(key=KEY, value=value)
    one = ratelimit_pb2.RateLimitDescriptor(entries=[entry])
    request: bytes = rls_pb2.RateLimitRequest(domain=DOMAIN, descriptors=[one] * descriptors).SerializeToString()
    return request


class Cut(Exception):
    """The sidecar closed the connection."""


class Flooder:
    """A connection that only obeys HTTP/2. It reads everything, so that the sidecar never waits for it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setblocking(False)
        self.received = bytearray()
        #: Bytes to send before the next frame, because the current one may be half sent.
        self.unsent = b""
        self.stream = -1
        #: The windows of the connection, of a new stream, and of each open stream.
        self.window = self.first_window = FIRST_WINDOW
        self.windows: dict[int, int] = {}
        self.socket.send(PREFACE + frame(SETTINGS, 0, 0))

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.read()
        left = memoryview(self.unsent + data)
        self.unsent = b""
        while left:
            try:
                left = left[self.socket.send(left) :]
            except BlockingIOError:
                if not any(select.select([self.socket], [self.socket], [], PATIENCE)):
                    raise TimeoutError(f"nothing was read or sent for {PATIENCE} s") from None
                self.read()
            except OSError as error:
                raise Cut from error

    def read(self, wait: bool = False) -> None:
        if wait:
            select.select([self.socket], [], [], PATIENCE)
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError as error:
            raise Cut from error
        if not data:
            raise Cut
        self.received += data
        for kind, flags, stream, payload in take_frames(self.received):
            if kind == GOAWAY:
                raise Cut
            if kind == SETTINGS and not flags & ACK:
                grown = settings(payload).get(INITIAL_WINDOW_SIZE, self.first_window) - self.first_window
                self.first_window += grown
                self.windows = {stream: window + grown for stream, window in self.windows.items()}
                self.unsent += frame(SETTINGS, ACK, 0)
            elif kind == WINDOW_UPDATE and stream == 0:
                self.window += int.from_bytes(payload)
            elif kind == WINDOW_UPDATE and stream in self.windows:
                self.windows[stream] += int.from_bytes(payload)
            elif kind == RESET or (kind in (HEADERS, DATA) and flags & END_STREAM):
                self.windows.pop(stream, None)

    def until_over(self) -> None:
        """Waits until its calls are finished."""
        end = time.monotonic() + PATIENCE
        while self.windows:
            if time.monotonic() > end:
                raise TimeoutError(f"{len(self.windows)} calls are not finished after {PATIENCE} s")
            self.read(wait=True)

    def head(self, fields: bytes = FIELDS) -> bytes:
        """Starts a call."""
        self.stream += 2
        self.windows[self.stream] = self.first_window
        return frame(HEADERS, END_HEADERS, self.stream, fields)

    def data(self, stream: int, payload: bytes, flags: int = END_STREAM) -> bytes:
        """Returns a frame once the window has room for it, or nothing if the call has ended."""
        end = time.monotonic() + PATIENCE
        while stream in self.windows and min(self.window, self.windows[stream]) < len(payload):
            if time.monotonic() > end:
                raise TimeoutError(f"the window of a call is only {self.windows[stream]} bytes after {PATIENCE} s")
            self.read(wait=True)
        if stream not in self.windows:
            return b""
        self.window -= len(payload)
        self.windows[stream] -= len(payload)
        return frame(DATA, flags, stream, payload)

    def call(self, payload: bytes) -> None:
        """Sends one call, in several frames if its message is long."""
        head = self.head()
        stream = self.stream
        for start in range(0, len(payload), LONGEST_FRAME):
            part = payload[start : start + LONGEST_FRAME]
            is_last = start + LONGEST_FRAME >= len(payload)
            self.send(head + self.data(stream, part, END_STREAM if is_last else 0))
            head = b""

    def reset(self, stream: int) -> bytes:
        self.windows.pop(stream, None)
        return frame(RESET, 0, stream, CANCEL.to_bytes(4))


#: Adds to the number of sent items.
Count = Callable[[int], None]


def same(flooder: Flooder, count: Count, one: bytes) -> NoReturn:
    while True:
        flooder.send(one * BATCH)
        count(BATCH)


def pings(flooder: Flooder, count: Count) -> NoReturn:
    same(flooder, count, frame(PING, 0, 0, b"are you?"))


def empty_settings(flooder: Flooder, count: Count) -> NoReturn:
    same(flooder, count, frame(SETTINGS, 0, 0))


def rapid_resets(flooder: Flooder, count: Count) -> NoReturn:
    while True:
        flooder.send(b"".join(flooder.head() + flooder.reset(flooder.stream) for _ in range(BATCH)))
        count(BATCH)


def deadlines(flooder: Flooder, count: Count) -> NoReturn:
    """Calls that are cancelled after a millisecond unless they are answered."""
    payload = message(body())
    while True:
        flooder.send(b"".join(flooder.head() + flooder.data(flooder.stream, payload) for _ in range(BATCH)))
        time.sleep(0.001)
        flooder.read()
        flooder.send(b"".join(map(flooder.reset, list(flooder.windows))))
        count(BATCH)


def endless(flooder: Flooder, count: Count) -> NoReturn:
    """Calls that announce a megabyte and send it byte by byte."""
    promise = b"\x00" + (1 << 20).to_bytes(4)
    while True:
        while len(flooder.windows) < ENDLESS:
            flooder.send(flooder.head() + flooder.data(flooder.stream, promise, 0))
        flooder.send(b"".join(flooder.data(stream, b"\x0a", 0) for stream in list(flooder.windows)))
        count(ENDLESS)


def beginnings(flooder: Flooder, count: Count) -> NoReturn:
    """Calls that send the start of a message after frames of an unknown kind, which must not use memory."""
    ignored = frame(UNKNOWN, 0, 0, bytes(LONGEST_FRAME)) * 3
    while True:
        if len(flooder.windows) < ENDLESS:
            flooder.send(flooder.head() + ignored + flooder.data(flooder.stream, message(b""), 0))
        else:
            flooder.send(ignored)
        count(3)


def silent(flooder: Flooder, count: Count) -> NoReturn:
    """A stream of access logs with a thousand messages in each frame, all with one unknown field."""
    messages = message(b"\x78\x00") * 1000
    while True:
        head = b"" if flooder.windows else flooder.head(LOG_FIELDS)
        flooder.send(head + flooder.data(flooder.stream, messages, 0))
        count(1000)


def answered(flooder: Flooder, count: Count, payload: bytes, at_once: int) -> NoReturn:
    """Sends a batch of calls, waits for their responses, and sends the next batch."""
    while True:
        for _ in range(at_once):
            flooder.call(payload)
        while flooder.windows:
            flooder.read(wait=True)
        count(at_once)


def many_descriptors(flooder: Flooder, count: Count) -> NoReturn:
    answered(flooder, count, message(body(descriptors=10_000)), 4)


def long_messages(flooder: Flooder, count: Count) -> NoReturn:
    answered(flooder, count, message(body(value="x" * (2 << 20))), 1)


def many_entries(flooder: Flooder, count: Count) -> NoReturn:
    """Requests whose descriptor has more entries than a whole request may have."""
    descriptor = b"\x0a\x00" * 500_000
    length = len(descriptor)
    field = b"\x12" + bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14]) + descriptor
    answered(flooder, count, message(b"\x0a\x05speed" + field), 1)


def nonsense(flooder: Flooder, count: Count) -> NoReturn:
    answered(flooder, count, message(b"\xff\xff\xff"), BATCH)


#: The floods, with the unit that is counted.
FLOODS: dict[str, tuple[Callable[[Flooder, Count], NoReturn], str]] = {
    "keep-alives": (pings, "frames"),
    "rapid resets": (rapid_resets, "streams"),
    "settings": (empty_settings, "frames"),
    "deadlines of 1 ms": (deadlines, "calls"),
    "messages that never end": (endless, "frames"),
    "messages that only begin": (beginnings, "frames"),
    "empty messages": (silent, "messages"),
    "10,000 descriptors": (many_descriptors, "calls"),
    "500,000 entries": (many_entries, "calls"),
    "messages of 2 MB": (long_messages, "calls"),
    "malformed messages": (nonsense, "calls"),
}


class Flood:
    """Flooding connections, each in a process of its own, until they are stopped."""

    def __init__(self, kind: str, port: int, connections: int = 2) -> None:
        processes = multiprocessing.get_context("fork")
        #: For each process, the sent amount and the number of lost connections.
        self.counts = [processes.RawArray("q", 2) for _ in range(connections)]
        self.processes = [
            processes.Process(target=flood, args=(kind, port, counts), daemon=True) for counts in self.counts
        ]
        for process in self.processes:
            process.start()

    def sent(self) -> int:
        return sum(counts[0] for counts in self.counts)

    def cuts(self) -> int:
        return sum(counts[1] for counts in self.counts)

    def is_alive(self) -> bool:
        return all(process.is_alive() for process in self.processes)

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
            process.join()


def flood(kind: str, port: int, counts: list[int]) -> NoReturn:
    # The other client and Redis share the core and must not wait for the flood: only the sidecar is measured.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    def count(number: int) -> None:
        counts[0] += number

    while True:
        try:
            with contextlib.closing(Flooder(port)) as flooder:
                FLOODS[kind][0](flooder, count)
        except (Cut, ConnectionError):
            counts[1] += 1
