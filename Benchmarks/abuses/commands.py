"""Commands of the RESP API: expensive ones, refused ones, and more than a connection may have."""

import socket
from collections.abc import Callable, Iterator

from abuses.target import ABUSER, CONNECTIONS, CROWDED, LOGIN, OPERATOR, WAITING, Abuse, Case, Target
from rig.client import Client, encode
from rig.sender import Sender, connect, repeated


def pipelined(command: bytes, count: int, has_key: bool = True, is_read: bool = True) -> Abuse:
    def abuse(target: Target) -> Iterator[None]:
        sender = Sender(target.port, count, repeated(command), LOGIN if has_key else b"", is_read)
        while True:
            yield
            sender.turn()

    return abuse


def numbered(command: Callable[[int], bytes], count: int = 1) -> Abuse:
    """Returns an abuse whose commands each have a new number."""

    def abuse(target: Target) -> Iterator[None]:
        number = 0

        def batch(_: int) -> bytes:
            nonlocal number
            number += 256
            return b"".join(command(index) for index in range(number - 256, number))

        sender = Sender(target.port, count, batch, LOGIN)
        while True:
            yield
            sender.turn()

    return abuse


def invalid_bytes_after_wait(target: Target) -> Iterator[None]:
    """Sends invalid bytes behind a wait. Their error comes after the wait, and the bytes continue meanwhile."""
    greeting = LOGIN + encode("LIMIT.TAKE", "line") * 2 + encode("LIMIT.TAKE", "line", "WAIT", 60_000) + b"*x\r\n"
    sender = Sender(target.port, 1, b"x" * 70_000, greeting)
    while True:
        yield
        sender.turn()


def abandoned_calls(target: Target) -> Iterator[None]:
    """Abandons its calls: invalid bytes behind them end the connection."""
    sender = Sender(target.port, 1, LOGIN + encode("PERMIT.ACQUIRE", "calls") * 1024 + b"*x\r\n")
    while True:
        yield
        sender.turn()


def too_many_connections(target: Target) -> Iterator[None]:
    """Opens connections of which some send nothing, and some half a command."""
    connections: list[socket.socket] = []
    while True:
        yield
        if len(connections) < CONNECTIONS - 20:
            connections.append(connect(target.port))
            connections[-1].send(b"*3\r\n$12\r\nLOCK.AC")
        else:
            connect(target.port).close()


def unread_events(target: Target) -> Iterator[None]:
    """Followers that do not read the events, while events are published."""
    followers = [connect(target.port) for _ in range(20)]
    for follower in followers:
        follower.send(LOGIN + SUBSCRIBE)
    client, number = Client(target.port), 0
    client.command("AUTH", OPERATOR)
    while True:
        yield
        client.command("BREAKER.FORCE", "calls", ("DISABLED", "AUTO")[number % 2])
        number += 1


PING, INFO, VIEW, LIST = encode("PING"), encode("INFO"), encode("LIVE.VIEW", "services"), encode("BREAKER.LIST")
NAMES = [f"name-{number}" for number in range(1_000)]
CHANNEL = "interlock:events"
SUBSCRIBE, UNSUBSCRIBE = encode("SUBSCRIBE", CHANNEL), encode("UNSUBSCRIBE", CHANNEL)
#: A command has at most 1,024 words.
MANY_GET, MANY_DOCS = encode("MGET", *NAMES), encode("COMMAND", "INFO", *["LOCK.ACQUIRE"] * 1_000)
CASES = [
    Case("view-1", "LIVE.VIEW services, pipelined on 1 connection", pipelined(VIEW, 1)),
    Case("view-8", "LIVE.VIEW services, pipelined on 8 connections", pipelined(VIEW, 8)),
    Case("breakers-1", "BREAKER.LIST on 1", pipelined(LIST, 1)),
    Case("breakers-4", "BREAKER.LIST on 4", pipelined(LIST, 4)),
    Case("info-8", "INFO on 8", pipelined(INFO, 8)),
    Case("ping-100", "PING without a key, on 100", pipelined(PING, 100, has_key=False)),
    Case("ping-1000", "PING without a key, on 1,000", pipelined(PING, 1_000, has_key=False)),
    Case("ping-key-1000", "PING with a key, on 1,000", pipelined(PING, 1_000)),
    Case("auth-8", "AUTH with wrong keys, on 8", pipelined(encode("AUTH", "guessed"), 8, has_key=False)),
    Case("hello-8", "HELLO 3 with a key, on 8", pipelined(encode("HELLO", 3, "AUTH", "abuser", ABUSER), 8)),
    Case("subscribe-8", "SUBSCRIBE and UNSUBSCRIBE in turn, on 8", pipelined(SUBSCRIBE + UNSUBSCRIBE, 8)),
    Case("unknown-8", "unknown commands, on 8", pipelined(encode("NOTHING", "a", "b"), 8)),
    Case("takes-8", "LIMIT.TAKE of another service, on 8", pipelined(encode("LIMIT.TAKE", "calls"), 8)),
    Case("takes-1000", "LIMIT.TAKE of another service, on 1,000", pipelined(encode("LIMIT.TAKE", "calls"), 1_000)),
    Case("acquires-8", "LOCK.ACQUIRE of a held lock, on 8", pipelined(encode("LOCK.ACQUIRE", "wanted", 60_000), 8)),
    Case("mget-8", "MGET of 1,000 names, on 8", pipelined(MANY_GET, 8)),
    Case("command-info-8", "COMMAND INFO of 1,000 names, on 8", pipelined(MANY_DOCS, 8)),
    Case("grants-8", "LOCK.GRANTS on 8", pipelined(encode("LOCK.GRANTS"), 8)),
    Case("unread", "INFO on 1, whose replies are not read", pipelined(INFO, 1, is_read=False)),
    Case("huge", "commands of 1 MiB and more, on 1", pipelined(encode("LOCK.ACQUIRE", b"x" * (1 << 20), 1000), 1)),
    Case("nonsense", "bytes that are no command, on 1", pipelined(b"\x00" * 70_000, 1, has_key=False)),
    Case("nonsense-wait", "bytes that are no command, behind a wait", invalid_bytes_after_wait),
    Case("half-calls", "1,024 calls and then no command, on 1", abandoned_calls),
    Case(
        "subjects",
        "subjects beyond max_subjects, on 1",
        numbered(lambda number: encode("LIMIT.TAKE", "each", "SUBJECT", f"made-up-{number}")),
    ),
    Case(
        "waits",
        "waits beyond max_waiting, on 1",
        pipelined(encode("LIMIT.TAKE", "line", "WAIT", 60_000) * (WAITING + 1), 1),
    ),
    Case("permits", "permits that nobody reports, on 1", pipelined(encode("PERMIT.ACQUIRE", "calls"), 1)),
    Case("deaf", "20 followers that read no event", unread_events),
    Case("half-commands", "half commands on all connections", too_many_connections, CROWDED),
]
