"""Two clients of the Redis protocol: one command at a time, and many commands in flight."""

import socket


def encode(*words):
    """A command as it is sent."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Incomplete(Exception):
    """The rest has not come yet."""


class Replies:
    """What comes over one connection, reply by reply."""

    def __init__(self):
        self.rest = b""

    def feed(self, data):
        """The replies that are complete with these bytes."""
        data = self.rest + data
        replies, place = [], 0
        try:
            while place < len(data):
                reply, place = parse(data, place)
                replies.append(reply)
        except Incomplete:
            pass
        self.rest = data[place:]
        return replies


def parse(data, place):
    """The reply that begins there, and where the next one does. An error is raised."""
    end = data.find(b"\r\n", place)
    if end < 0:
        raise Incomplete
    kind, rest, place = data[place:place + 1], data[place + 1:end], end + 2
    if kind == b":":
        return int(rest), place
    if kind == b"+":
        return rest, place
    if kind == b"$":
        if rest == b"-1":
            return None, place
        end = place + int(rest)
        if len(data) < end + 2:
            raise Incomplete
        return data[place:end], end + 2
    if kind == b"*":
        elements = []
        for _ in range(int(rest)):
            element, place = parse(data, place)
            elements.append(element)
        return elements, place
    raise RuntimeError(rest.decode())


class Client:
    """The smallest Redis client: one command, one reply at a time, for timing single round trips."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")

    def command(self, *words):
        self.socket.sendall(encode(*words))
        return self.reply()

    def reply(self):
        line = self.reader.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind in (b"+", b":"):
            return rest
        if kind == b"$":
            return None if rest == b"-1" else self.reader.read(int(rest) + 2)[:-2]
        return [self.reply() for _ in range(max(0, int(rest)))]

    def close(self):
        self.reader.close()
        self.socket.close()

    def info(self, *sections):
        """The lines of INFO, by key."""
        lines = self.command("INFO", *sections).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


def scripts_run(redis):
    """By Redis' own count, to check the sidecars'. total_commands_processed would not do: it counts what scripts call."""
    lines = redis.info("commandstats")
    calls = [lines.get(f"cmdstat_{command}", "calls=0") for command in ("evalsha", "eval")]
    return sum(int(line.partition("calls=")[2].split(",")[0]) for line in calls)
