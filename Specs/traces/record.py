"""A relay between sidecars and Redis that records each script's call and its reply.

    python3 record.py LISTEN_PORT REDIS_PORT FILE

Each client gets a connection of its own to Redis, whose local port MONITOR prints. A line of the file has this port,
the request and the reply; monitor.py joins them.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import signal
from typing import Any, TextIO

CHUNK = 2**16
# A longer request or reply ends the recording of its connection.
MAXIMUM = 2**24
CALLS = {"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO"}
# After these commands, Redis sends messages that answer no request.
PUSHES = {"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR"}


class Incomplete(Exception):
    """The rest of a message has not arrived yet."""


class Messages:
    """Splits a stream of bytes into messages of RESP2."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        self.buffer += data
        messages, start = [], 0
        with contextlib.suppress(Incomplete):
            while start < len(self.buffer):
                message, start = self.parse(start)
                messages.append(message)
        del self.buffer[:start]
        if len(self.buffer) > MAXIMUM:
            raise ValueError("a message is too long")
        return messages

    def parse(self, start: int) -> tuple[Any, int]:
        """Returns the message at a position, and the position after it."""
        end = self.buffer.find(b"\r\n", start)
        if end < 0:
            raise Incomplete
        kind, text, after = chr(self.buffer[start]), self.buffer[start + 1 : end].decode("latin-1"), end + 2
        match kind:
            case "+":
                return {"status": text}, after
            case "-":
                return {"error": text}, after
            case ":":
                return int(text), after
            case "$" | "*" if text == "-1":
                return None, after
            case "$":
                last = after + int(text)
                if len(self.buffer) < last + 2:
                    raise Incomplete
                return self.buffer[after:last].decode("latin-1"), last + 2
            case "*":
                parts = []
                for _ in range(int(text)):
                    part, after = self.parse(after)
                    parts.append(part)
                return parts, after
        raise ValueError(f"not RESP2: {text[:80]}")


class Link:
    """A client's connection and its connection to Redis."""

    def __init__(self, port: int, file: TextIO) -> None:
        self.port = port
        self.file = file
        self.requests, self.replies = Messages(), Messages()
        self.pending: collections.deque[list[str]] = collections.deque()
        self.is_recorded = True

    def note(self, data: bytes, *, is_request: bool) -> None:
        """Notes bytes that pass. The recording must not disturb the connection, so it ends where they are no RESP2."""
        if not self.is_recorded:
            return
        try:
            if is_request:
                for request in self.requests.feed(data):
                    self.is_recorded = self.is_recorded and request[0].upper() not in PUSHES
                    self.pending.append(request)
            else:
                for reply in self.replies.feed(data):
                    request = self.pending.popleft()
                    if request[0].upper() in CALLS:
                        entry = {"port": self.port, "request": request, "reply": reply}
                        self.file.write(json.dumps(entry, separators=(",", ":")) + "\n")
        except (ValueError, IndexError, TypeError, AttributeError) as error:
            print(f"port {self.port} is no longer recorded: {error!r}", flush=True)
            self.is_recorded = False


async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter, link: Link, *, is_request: bool) -> None:
    """Passes bytes on until the source ends. Waits while the target's buffer is full."""
    with contextlib.suppress(ConnectionError):
        while data := await source.read(CHUNK):
            link.note(data, is_request=is_request)
            target.write(data)
            await target.drain()
    target.close()


async def serve(listen: int, redis: int, file: TextIO) -> None:
    """Relays connections until SIGTERM or SIGINT."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            redis_reader, redis_writer = await asyncio.open_connection("127.0.0.1", redis)
        except OSError:
            writer.close()
            return
        link = Link(redis_writer.get_extra_info("sockname")[1], file)
        await asyncio.gather(
            copy(reader, redis_writer, link, is_request=True), copy(redis_reader, writer, link, is_request=False)
        )

    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await asyncio.start_server(accept, "127.0.0.1", listen)
    await stopped.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the calls of scripts and their replies.")
    parser.add_argument("listen", type=int, help="the port for the sidecars")
    parser.add_argument("redis", type=int, help="the port of Redis")
    parser.add_argument("file", help="the file to write")
    options = parser.parse_args()
    with open(options.file, "w", encoding="utf-8") as file:  # noqa: PTH123
        asyncio.run(serve(options.listen, options.redis, file))


if __name__ == "__main__":
    main()
