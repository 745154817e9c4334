"""Two clients of the Redis protocol: one command at a time, and many commands in flight."""

import socket
import ssl
from collections.abc import Sequence
from typing import Any

Command = Sequence[str]
"""The words of a command."""


def encode(*words: object) -> bytes:
    """Returns the bytes of a command."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Incomplete(Exception):
    """The reply is not complete yet."""


class Replies:
    """Splits the received bytes of one connection into replies."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[Any]:
        """Returns the replies that these bytes complete."""
        data = self.rest + data
        replies, position = [], 0
        try:
            while position < len(data):
                reply, position = parse(data, position)
                replies.append(reply)
        except Incomplete:
            pass
        self.rest = data[position:]
        return replies


def parse(data: bytes, position: int) -> tuple[Any, int]:
    """Returns the reply at `position`, and the position after it. Raises RuntimeError for an error reply."""
    end = data.find(b"\r\n", position)
    if end < 0:
        raise Incomplete
    kind, rest, position = data[position : position + 1], data[position + 1 : end], end + 2
    if kind == b":":
        return int(rest), position
    if kind == b"+":
        return rest, position
    if kind == b"$":
        if rest == b"-1":
            return None, position
        end = position + int(rest)
        if len(data) < end + 2:
            raise Incomplete
        return data[position:end], end + 2
    if kind == b"*":
        elements = []
        for _ in range(int(rest)):
            element, position = parse(data, position)
            elements.append(element)
        return elements, position
    raise RuntimeError(rest.decode())


class Client:
    """A minimal Redis client for timing single round trips: one command, one reply."""

    def __init__(self, port: int, is_encrypted: bool = False) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_encrypted:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        self.reader = self.socket.makefile("rb")

    def command(self, *words: object) -> Any:
        self.socket.sendall(encode(*words))
        return self.reply()

    def reply(self) -> Any:
        line = self.reader.readline()
        if not line:
            raise ConnectionResetError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind in (b"+", b":"):
            return rest
        if kind == b"$":
            return None if rest == b"-1" else self.reader.read(int(rest) + 2)[:-2]
        return [self.reply() for _ in range(max(0, int(rest)))]

    def close(self) -> None:
        self.reader.close()
        self.socket.close()

    def info(self, *sections: object) -> dict[str, str]:
        """Returns the fields of INFO."""
        lines = self.command("INFO", *sections).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


def scripts_run(redis: Client) -> int:
    """Returns the number of scripts that Redis has run, without the commands that they called."""
    lines = redis.info("commandstats")
    calls = [lines.get(f"cmdstat_{command}", "calls=0") for command in ("evalsha", "eval")]
    return sum(int(line.partition("calls=")[2].split(",")[0]) for line in calls)
