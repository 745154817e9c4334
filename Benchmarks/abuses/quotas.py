"""Quota streams of one API key that report as many made-up buckets as possible: memory, and keys in Redis."""

import select
import struct
import time
from collections.abc import Iterator

from abuses.target import ABUSER, Setup, start
from abuses.trial import Finding, Stage, Trial, megabytes
from rig import http2
from rig.client import Client
from rig.sender import READ, connect

PATH = "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas"
SETUP = Setup(more="rate_limits: { quotas: { descriptors: [ { key: tenant, limit: 100, per: 1s } ] } }")
#: The usages in one message, and the bytes of each bucket's value. A message may have 1 MiB.
USAGES, LENGTH = 240, 4_000
CONNECTIONS, STREAMS, MESSAGES = 4, 64, 82
#: Limits: megabytes of additional resident memory during the flood and after it, and keys in Redis.
DURING, AFTER, KEYS = 64, 16, 20_000
#: Seconds until memory and keys are freed: an assignment ends 20 seconds after its last report.
RELEASE_SECONDS = 45


def varint(number: int) -> bytes:
    data = b""
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])


def field(number: int, data: bytes) -> bytes:
    """Encodes a length-delimited field of a message."""
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def report(first: int) -> bytes:
    """Encodes a gRPC message of usages of unique buckets, with 100 requests each."""
    usages = []
    for number in range(first, first + USAGES):
        value = f"made-up-{number}-".encode().ljust(LENGTH, b"x")
        bucket = field(1, field(1, field(1, b"tenant") + field(2, value)))
        usages.append(field(2, bucket + b"\x18\x64"))
    body = field(1, b"quotas") + b"".join(usages)
    return b"\x00" + len(body).to_bytes(4) + body


class Flood:
    """A connection with many streams, which sends as much as its windows allow."""

    def __init__(self, port: int, first: int) -> None:
        self.socket = connect(port)
        headers = [("content-type", "application/grpc"), ("te", "trailers"), ("authorization", f"Bearer {ABUSER}")]
        fields = http2.fields(PATH, *headers, method="POST")
        self.streams = [number * 2 + 1 for number in range(STREAMS)]
        heads = [http2.frame(http2.HEADERS, http2.END_HEADERS, stream, fields) for stream in self.streams]
        self.out = bytearray(http2.GREETING + b"".join(heads))
        self.rest = b""
        self.window = http2.FIRST_WINDOW
        self.initial = http2.FIRST_WINDOW
        self.windows = dict.fromkeys(self.streams, 0)
        self.first = first
        self.sent = 0
        self.message = b""
        self.stream = self.streams[0]
        self.is_over = False

    def turn(self) -> None:
        self.fill()
        readable, writable, _ = select.select([self.socket], [self.socket] if self.out else [], [], 0.02)
        try:
            if writable:
                del self.out[: self.socket.send(self.out)]
            if readable:
                data = self.socket.recv(READ)
                self.is_over = self.is_over or not data
                self.take(data)
        except BlockingIOError:
            pass
        except OSError:
            self.is_over = True

    def fill(self) -> None:
        """Builds as many frames of the current message as the windows allow."""
        while not self.is_over and len(self.out) < 1 << 18:
            if not self.message:
                if self.sent == MESSAGES:
                    self.is_over = not self.out
                    return
                self.message = report(self.first + self.sent * USAGES)
                self.sent += 1
                self.stream = self.streams[self.sent % STREAMS]
            room = min(self.window, self.initial + self.windows.get(self.stream, 0), 1 << 14, len(self.message))
            if self.stream not in self.windows:
                # The sidecar ended the stream.
                self.message = b""
                if not self.windows:
                    self.is_over = True
                continue
            if room <= 0:
                return
            self.out += http2.frame(http2.DATA, 0, self.stream, self.message[:room])
            self.message = self.message[room:]
            self.window -= room
            self.windows[self.stream] -= room

    def take(self, data: bytes) -> None:
        data = self.rest + data
        position = 0
        while len(data) - position >= http2.HEAD.size:
            high, low, kind, flags, stream = http2.HEAD.unpack_from(data, position)
            end = position + http2.HEAD.size + (high << 16 | low)
            if end > len(data):
                break
            self.handle_frame(kind, flags, stream, data[position + http2.HEAD.size : end])
            position = end
        self.rest = data[position:]

    def handle_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == http2.WINDOW_UPDATE:
            [added] = struct.unpack("!I", payload)
            if stream == 0:
                self.window += added
            elif stream in self.windows:
                self.windows[stream] += added
        elif kind == http2.SETTINGS and not flags & http2.ACK:
            for position in range(0, len(payload), 6):
                name, value = struct.unpack_from("!HI", payload, position)
                if name == http2.INITIAL_WINDOW_SIZE:
                    self.initial = value
            self.out += http2.frame(http2.SETTINGS, http2.ACK)
        elif kind == http2.PING and not flags & http2.ACK:
            self.out += http2.frame(http2.PING, http2.ACK, 0, payload)
        elif kind == http2.RESET or (kind == http2.HEADERS and flags & http2.END_STREAM):
            self.windows.pop(stream, None)
        elif kind == http2.GOAWAY:
            self.is_over = True


def run(stage: Stage) -> Iterator[Finding]:
    target = start(stage.rig, stage.binary, SETUP, stage.before)
    redis = Client(stage.rig.redis_port)
    time.sleep(1)
    before, keys_before = megabytes(target.sidecar), int(redis.command("DBSIZE"))
    floods = [Flood(target.grpc_port, number * MESSAGES * USAGES) for number in range(CONNECTIONS)]
    maximum, keys = before, keys_before
    deadline = time.monotonic() + stage.seconds(30)
    while time.monotonic() < deadline and not all(flood.is_over for flood in floods):
        for flood in floods:
            flood.turn()
        maximum, keys = max(maximum, megabytes(target.sidecar)), max(keys, int(redis.command("DBSIZE")))
    settled = time.monotonic() + 2
    while time.monotonic() < settled:
        maximum, keys = max(maximum, megabytes(target.sidecar)), max(keys, int(redis.command("DBSIZE")))
        time.sleep(0.05)
    sent = sum(flood.sent for flood in floods) * USAGES * LENGTH / 1e6
    for flood in floods:
        flood.socket.close()
    deadline = time.monotonic() + RELEASE_SECONDS
    while time.monotonic() < deadline and (
        int(redis.command("DBSIZE")) > keys_before + 10 or megabytes(target.sidecar) > before + AFTER
    ):
        time.sleep(0.5)
    after, keys_after = megabytes(target.sidecar), int(redis.command("DBSIZE"))
    memory = f"{before:.0f} MB before; {sent:.0f} MB sent"
    yield Finding(
        "resident on top meanwhile", f"{maximum - before:.0f} MB", f"≤ {DURING} MB", maximum - before <= DURING, memory
    )
    yield Finding("resident on top afterwards", f"{after - before:.0f} MB", f"≤ {AFTER} MB", after - before <= AFTER)
    added = keys - keys_before
    yield Finding("keys in Redis meanwhile", f"{added:,}", f"≤ {KEYS:,}", added <= KEYS)
    remaining = keys_after - keys_before
    yield Finding(f"keys in Redis {RELEASE_SECONDS} s afterwards", f"{remaining:,}", "≤ 10", remaining <= 10)
    stage.rig.stop(target.process)


TRIALS = [Trial("quotas", f"quota streams with buckets of {LENGTH:,} bytes that nobody else has", run)]
