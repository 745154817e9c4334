"""Clients that flood the gRPC API, each in its own process."""

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
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_FRAME_SIZE,
    PING,
    PREFACE,
    RESET,
    SETTINGS,
    SHOULD_RATE_LIMIT,
    WINDOW_UPDATE,
    frame,
    message,
    pop_frames,
    request_head,
    settings,
)
from servers import TIMEOUT

DOMAIN = "speed"
#: The name of Envoy's generic_key.
KEY = "generic_key"
#: An unknown kind of frame, which must be ignored.
UNKNOWN = 0x2A
#: The number of frames or calls that a flood sends in one write.
BATCH = 64
#: Open calls of one connection: the maximum before the sidecar announces its limit.
OPEN_CALLS = 100
CALL_FIELDS = request_head(SHOULD_RATE_LIMIT)
LOG_FIELDS = request_head("/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs")


def body(descriptors: int = 1, value: str = "a") -> bytes:
    """Returns a request with this number of one-entry descriptors."""
    entry = ratelimit_pb2.RateLimitDescriptor.Entry(key=KEY, value=value)
    one = ratelimit_pb2.RateLimitDescriptor(entries=[entry])
    request: bytes = rls_pb2.RateLimitRequest(domain=DOMAIN, descriptors=[one] * descriptors).SerializeToString()
    return request


class ConnectionClosed(Exception):
    """The sidecar closed the connection."""


class Flooder:
    """A connection that obeys HTTP/2 but no other limit. Reads everything, so that the sidecar never waits for it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.socket.setblocking(False)
        self.received = bytearray()
        #: Bytes to send before the next frame, because the current frame may be partially sent.
        self.unsent = b""
        self.stream = -1
        #: The windows of the connection, of a new stream, and of each open stream.
        self.window = self.initial_window = DEFAULT_WINDOW
        self.windows: dict[int, int] = {}
        self.socket.send(PREFACE + frame(SETTINGS, 0, 0))

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.read()
        remaining = memoryview(self.unsent + data)
        self.unsent = b""
        while remaining:
            try:
                remaining = remaining[self.socket.send(remaining) :]
            except BlockingIOError:
                if not any(select.select([self.socket], [self.socket], [], TIMEOUT)):
                    raise TimeoutError(f"nothing was read or sent for {TIMEOUT} s") from None
                self.read()
            except OSError as error:
                raise ConnectionClosed from error

    def read(self, wait: bool = False) -> None:
        if wait:
            select.select([self.socket], [], [], TIMEOUT)
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError as error:
            raise ConnectionClosed from error
        if not data:
            raise ConnectionClosed
        self.received += data
        for kind, flags, stream, payload in pop_frames(self.received):
            if kind == GOAWAY:
                raise ConnectionClosed
            if kind == SETTINGS and not flags & ACK:
                growth = settings(payload).get(INITIAL_WINDOW_SIZE, self.initial_window) - self.initial_window
                self.initial_window += growth
                self.windows = {stream: window + growth for stream, window in self.windows.items()}
                self.unsent += frame(SETTINGS, ACK, 0)
            elif kind == WINDOW_UPDATE and stream == 0:
                self.window += int.from_bytes(payload)
            elif kind == WINDOW_UPDATE and stream in self.windows:
                self.windows[stream] += int.from_bytes(payload)
            elif kind == RESET or (kind in (HEADERS, DATA) and flags & END_STREAM):
                self.windows.pop(stream, None)

    def wait_until_finished(self) -> None:
        """Waits until all calls have finished."""
        end = time.monotonic() + TIMEOUT
        while self.windows:
            if time.monotonic() > end:
                raise TimeoutError(f"{len(self.windows)} calls are not finished after {TIMEOUT} s")
            self.read(wait=True)

    def start_call(self, fields: bytes = CALL_FIELDS) -> bytes:
        """Starts a call."""
        self.stream += 2
        self.windows[self.stream] = self.initial_window
        return frame(HEADERS, END_HEADERS, self.stream, fields)

    def data(self, stream: int, payload: bytes, flags: int = END_STREAM) -> bytes:
        """Returns a frame once the window allows it, or nothing if the call has ended."""
        end = time.monotonic() + TIMEOUT
        while stream in self.windows and min(self.window, self.windows[stream]) < len(payload):
            if time.monotonic() > end:
                raise TimeoutError(f"the window of a call is only {self.windows[stream]} bytes after {TIMEOUT} s")
            self.read(wait=True)
        if stream not in self.windows:
            return b""
        self.window -= len(payload)
        self.windows[stream] -= len(payload)
        return frame(DATA, flags, stream, payload)

    def call(self, payload: bytes) -> None:
        """Sends one call, in several frames if its message is long."""
        head = self.start_call()
        stream = self.stream
        for start in range(0, len(payload), MAX_FRAME_SIZE):
            part = payload[start : start + MAX_FRAME_SIZE]
            is_last = start + MAX_FRAME_SIZE >= len(payload)
            self.send(head + self.data(stream, part, END_STREAM if is_last else 0))
            head = b""

    def reset(self, stream: int) -> bytes:
        self.windows.pop(stream, None)
        return frame(RESET, 0, stream, CANCEL.to_bytes(4))


#: A function that adds to the number of sent items.
Count = Callable[[int], None]


def repeat(flooder: Flooder, count: Count, one: bytes) -> NoReturn:
    while True:
        flooder.send(one * BATCH)
        count(BATCH)


def pings(flooder: Flooder, count: Count) -> NoReturn:
    repeat(flooder, count, frame(PING, 0, 0, b"12345678"))


def empty_settings(flooder: Flooder, count: Count) -> NoReturn:
    repeat(flooder, count, frame(SETTINGS, 0, 0))


def rapid_resets(flooder: Flooder, count: Count) -> NoReturn:
    while True:
        flooder.send(b"".join(flooder.start_call() + flooder.reset(flooder.stream) for _ in range(BATCH)))
        count(BATCH)


def short_deadlines(flooder: Flooder, count: Count) -> NoReturn:
    """Calls that are cancelled after a millisecond unless they are answered."""
    payload = message(body())
    while True:
        flooder.send(b"".join(flooder.start_call() + flooder.data(flooder.stream, payload) for _ in range(BATCH)))
        time.sleep(0.001)
        flooder.read()
        flooder.send(b"".join(map(flooder.reset, list(flooder.windows))))
        count(BATCH)


def byte_by_byte(flooder: Flooder, count: Count) -> NoReturn:
    """Calls that announce a megabyte and send it byte by byte."""
    prefix = b"\x00" + (1 << 20).to_bytes(4)
    while True:
        while len(flooder.windows) < OPEN_CALLS:
            flooder.send(flooder.start_call() + flooder.data(flooder.stream, prefix, 0))
        flooder.send(b"".join(flooder.data(stream, b"\x0a", 0) for stream in list(flooder.windows)))
        count(OPEN_CALLS)


def partial_messages(flooder: Flooder, count: Count) -> NoReturn:
    """Calls that send the start of a message after frames of an unknown kind, which must not use memory."""
    ignored = frame(UNKNOWN, 0, 0, bytes(MAX_FRAME_SIZE)) * 3
    while True:
        if len(flooder.windows) < OPEN_CALLS:
            flooder.send(flooder.start_call() + ignored + flooder.data(flooder.stream, message(b""), 0))
        else:
            flooder.send(ignored)
        count(3)


def empty_messages(flooder: Flooder, count: Count) -> NoReturn:
    """A stream of access logs with a thousand messages in each frame, all with one unknown field."""
    messages = message(b"\x78\x00") * 1000
    while True:
        head = b"" if flooder.windows else flooder.start_call(LOG_FIELDS)
        flooder.send(head + flooder.data(flooder.stream, messages, 0))
        count(1000)


def send_batches(flooder: Flooder, count: Count, payload: bytes, batch: int) -> NoReturn:
    """Sends a batch of calls, waits for their responses, and sends the next batch."""
    while True:
        for _ in range(batch):
            flooder.call(payload)
        while flooder.windows:
            flooder.read(wait=True)
        count(batch)


def many_descriptors(flooder: Flooder, count: Count) -> NoReturn:
    send_batches(flooder, count, message(body(descriptors=10_000)), 4)


def long_messages(flooder: Flooder, count: Count) -> NoReturn:
    send_batches(flooder, count, message(body(value="x" * (2 << 20))), 1)


def many_entries(flooder: Flooder, count: Count) -> NoReturn:
    """Requests whose descriptor has more entries than a whole request may have."""
    descriptor = b"\x0a\x00" * 500_000
    length = len(descriptor)
    field = b"\x12" + bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14]) + descriptor
    send_batches(flooder, count, message(b"\x0a\x05speed" + field), 1)


def malformed_messages(flooder: Flooder, count: Count) -> NoReturn:
    send_batches(flooder, count, message(b"\xff\xff\xff"), BATCH)


#: The floods, with the unit that is counted.
FLOODS: dict[str, tuple[Callable[[Flooder, Count], NoReturn], str]] = {
    "keep-alives": (pings, "frames"),
    "rapid resets": (rapid_resets, "streams"),
    "settings": (empty_settings, "frames"),
    "deadlines of 1 ms": (short_deadlines, "calls"),
    "messages that never end": (byte_by_byte, "frames"),
    "messages that only begin": (partial_messages, "frames"),
    "empty messages": (empty_messages, "messages"),
    "10,000 descriptors": (many_descriptors, "calls"),
    "500,000 entries": (many_entries, "calls"),
    "messages of 2 MB": (long_messages, "calls"),
    "malformed messages": (malformed_messages, "calls"),
}


class Flood:
    """Flooding connections, each in its own process, until they are stopped."""

    def __init__(self, kind: str, port: int, connections: int = 2) -> None:
        processes = multiprocessing.get_context("fork")
        #: For each process, the number of sent items and of lost connections.
        self.counts = [processes.RawArray("q", 2) for _ in range(connections)]
        self.processes = [
            processes.Process(target=flood, args=(kind, port, counts), daemon=True) for counts in self.counts
        ]
        for process in self.processes:
            process.start()

    def sent(self) -> int:
        return sum(counts[0] for counts in self.counts)

    def disconnects(self) -> int:
        return sum(counts[1] for counts in self.counts)

    def is_alive(self) -> bool:
        return all(process.is_alive() for process in self.processes)

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
            process.join()


def flood(kind: str, port: int, counts: list[int]) -> NoReturn:
    # The measured client and Redis share the core and must not wait for the flood, which would distort the figures.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    def count(number: int) -> None:
        counts[0] += number

    while True:
        try:
            with contextlib.closing(Flooder(port)) as flooder:
                FLOODS[kind][0](flooder, count)
        except (ConnectionClosed, ConnectionError):
            counts[1] += 1
