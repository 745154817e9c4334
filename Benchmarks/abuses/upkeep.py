"""Work that is not divisible: opened and closed connections, handshakes, reloads."""

import contextlib
import signal
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator

from abuses.frames import grpc, web
from abuses.target import ENCRYPTED, LOGIN, Abuse, Case, Target, configuration
from rig import http2
from rig.client import Client, encode
from rig.sender import connect

#: Linked leases of the client that leaves; one connection can have at most this many.
LEASES = 10_000
#: Leases that are requested before their replies are read.
BATCH = 500
#: The first bytes of a client of HTTP/2, and a frame.
BEGINNING = http2.GREETING + http2.frame(http2.WINDOW_UPDATE, 0, 0, b"\0\0\0\1")


def resp(target: Target) -> int:
    return target.port


def short_connections(port: Callable[[Target], int], first_bytes: bytes = b"") -> Abuse:
    """Opens connections that reset right after their first bytes."""

    def abuse(target: Target) -> Iterator[None]:
        while True:
            yield
            connection = connect(port(target))
            if first_bytes:
                connection.send(first_bytes)
            connection.close()

    return abuse


def client_hello() -> bytes:
    """Returns the ClientHello of a TLS client. A server answers each one with a signature."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def handshakes(target: Target) -> Iterator[None]:
    """Starts handshakes, each of which costs the sidecar a signature, and disconnects at the response."""
    hello = client_hello()
    ports = [target.port, target.http_port, target.grpc_port]
    number = 0
    while True:
        yield
        connections = [connect(ports[(number + index) % 3]) for index in range(16)]
        number += 16
        for connection in connections:
            connection.send(hello)
        for connection in connections:
            connection.settimeout(0.05)
            with contextlib.suppress(OSError):
                connection.recv(1 << 14)
            connection.close()


def disconnects(target: Target) -> Iterator[None]:
    """Runs a client that holds as many linked leases as possible, and disconnects without releasing them."""
    while True:
        client = Client(target.port)
        client.socket.settimeout(60)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.socket.sendall(LOGIN)
        client.reply()
        for begin in range(0, LEASES, BATCH):
            names = range(begin, begin + BATCH)
            client.socket.sendall(
                b"".join(encode("LOCK.ACQUIRE", f"linked-{name}", 60_000, "LINKED") for name in names)
            )
            for _ in names:
                client.reply()
        yield
        client.close()
        # The leases are released before they are acquired again.
        time.sleep(0.3)


def reloads(target: Target) -> Iterator[None]:
    """Changes the limits of all services, again and again."""
    ports = target.port, target.http_port, target.grpc_port
    limit = 1_000_000
    while True:
        yield
        limit += 1
        target.configuration.write_text(configuration(target.setup, target.configuration.parent, *ports, limit))
        target.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)


CASES = [
    Case("connections-resp", "connections to the RESP API, opened and closed in a loop", short_connections(resp)),
    Case("connections-http", "connections to the HTTP API, opened and closed in a loop", short_connections(web)),
    Case(
        "reset-resp",
        "clients of the RESP API that ask for 200 KB and reset",
        short_connections(resp, LOGIN + encode("COMMAND", "DOCS") * 100),
    ),
    Case("reset-http2", "clients of the HTTP API that begin HTTP/2 and reset", short_connections(web, BEGINNING)),
    Case("reset-grpc", "clients of the gRPC API that begin HTTP/2 and reset", short_connections(grpc, BEGINNING)),
    Case("handshakes", "TLS handshakes in a loop", handshakes, ENCRYPTED),
    Case("leases", f"a client with {LEASES:,} linked leases that leaves", disconnects),
    Case("reload", "reloads that change 400 services", reloads),
]
