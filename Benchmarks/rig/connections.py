"""Thousands of connections to one sidecar."""

import multiprocessing
import resource
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

from rig.client import Replies, encode

#: Connections that are opened before their replies are awaited: fewer than a listener's backlog.
BATCH = 500
#: Connections from one address of this machine: it has about 28,000 ports, but connecting takes milliseconds once half
#: of them are taken.
PER_ADDRESS = 10_000
#: Of ip(7): the port is chosen by connect, which knows that only pairs of addresses must differ.
IP_BIND_ADDRESS_NO_PORT = 24
PING = encode("PING")


class Connections:
    """Open connections, each of which has answered a PING."""

    def __init__(self, port: int, count: int) -> None:
        self.port = port
        #: By file descriptor.
        self.by_descriptor: dict[int, tuple[socket.socket, Replies]] = {}
        self.ready = select.epoll()
        while len(self.by_descriptor) < count:
            self.join(min(BATCH, count - len(self.by_descriptor)))

    @property
    def sockets(self) -> list[socket.socket]:
        """Returns the sockets in the order in which they connected."""
        return [member[0] for member in self.by_descriptor.values()]

    def join(self, count: int) -> None:
        """Opens more connections, and waits for a reply over each."""
        new = []
        for _ in range(count):
            connection = socket.socket()
            connection.settimeout(10)
            connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            connection.bind((f"127.0.0.{1 + len(self.by_descriptor) // PER_ADDRESS}", 0))
            connection.connect(("127.0.0.1", self.port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.by_descriptor[connection.fileno()] = connection, Replies()
            self.ready.register(connection, select.EPOLLIN)
            new.append(connection)
        self.ask(PING, new)

    def ask(
        self,
        command: bytes | Callable[[int], bytes],
        sockets: Sequence[socket.socket] | None = None,
        seconds: float = 30,
    ) -> list[Any]:
        """Sends a command over each connection; a function gets the connection's index. Returns the replies in the same
        order."""
        sockets = self.sockets if sockets is None else sockets
        for index, connection in enumerate(sockets):
            connection.sendall(command(index) if callable(command) else command)
        indices = {connection.fileno(): index for index, connection in enumerate(sockets)}
        replies = {}
        for number, reply in self.answers(len(sockets), seconds):
            replies[indices[number]] = reply
        return [replies[index] for index in range(len(sockets))]

    def answers(self, count: int, seconds: float) -> Iterator[tuple[int, Any]]:
        """Yields this many replies as they arrive: (file descriptor, reply)."""
        deadline = time.monotonic() + seconds
        while count > 0:
            ready = self.ready.poll(max(0, deadline - time.monotonic()))
            if not ready:
                sys.exit(
                    f"benchmark: {count:,} of {len(self.by_descriptor):,} connections got no answer in {seconds} s"
                )
            for number, _ in ready:
                connection, replies = self.by_descriptor[number]
                data = connection.recv(1 << 16)
                if not data:
                    sys.exit("benchmark: the sidecar closed a connection that it had accepted")
                for reply in replies.feed(data):
                    count -= 1
                    yield number, reply

    def close(self) -> None:
        self.ready.close()
        for connection in self.sockets:
            connection.close()
        self.by_descriptor = {}


class IdleConnections:
    """Connections that send nothing once they are open. Another process holds them, so that they do not slow down this
    one. It forks: create it before other connections."""

    def __init__(self, port: int, count: int) -> None:
        processes = multiprocessing.get_context("fork")
        self.orders, child_end = processes.Pipe()
        self.process = processes.Process(target=hold, args=(port, count, child_end), daemon=True)
        self.process.start()
        child_end.close()
        try:
            self.orders.recv()
        except EOFError:
            sys.exit(f"benchmark: {count:,} connections could not be opened")

    def close(self) -> None:
        self.orders.send("close")
        self.process.join()


def hold(port: int, count: int, orders: Connection) -> None:
    raise_open_files()
    connections = Connections(port, count)
    orders.send("open")
    orders.recv()
    connections.close()


def raise_open_files() -> int | None:
    """Raises the open-file limit of this process and its children to the maximum. Returns it, or None if there is no
    limit."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))
    return None if maximum == resource.RLIM_INFINITY else maximum
