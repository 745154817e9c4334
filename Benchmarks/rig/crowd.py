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

#: Connections that are opened before each waits for a reply: fewer than a listener's backlog.
AT_ONCE = 500
#: Connections from one address of this machine: it has about 28,000 ports, but connecting takes milliseconds once half
#: of them are taken.
EACH_ADDRESS = 10_000
#: Of ip(7): the port is chosen by connect, which knows that only pairs of addresses must differ.
IP_BIND_ADDRESS_NO_PORT = 24
PING = encode("PING")


class Crowd:
    def __init__(self, port: int, count: int) -> None:
        self.port = port
        #: By file descriptor.
        self.members: dict[int, tuple[socket.socket, Replies]] = {}
        self.ready = select.epoll()
        while len(self.members) < count:
            self.join(min(AT_ONCE, count - len(self.members)))

    @property
    def sockets(self) -> list[socket.socket]:
        """In the order of their connecting."""
        return [member[0] for member in self.members.values()]

    def join(self, count: int) -> None:
        """Opens more connections, and waits for a reply over each."""
        new = []
        for _ in range(count):
            connection = socket.socket()
            connection.settimeout(10)
            connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            connection.bind((f"127.0.0.{1 + len(self.members) // EACH_ADDRESS}", 0))
            connection.connect(("127.0.0.1", self.port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.members[connection.fileno()] = connection, Replies()
            self.ready.register(connection, select.EPOLLIN)
            new.append(connection)
        self.ask(PING, new)

    def ask(
        self,
        command: bytes | Callable[[int], bytes],
        sockets: Sequence[socket.socket] | None = None,
        seconds: float = 30,
    ) -> list[Any]:
        """Sends a command, or a function of the connection's place, over each connection. Returns the replies in their
        order."""
        sockets = self.sockets if sockets is None else sockets
        for place, connection in enumerate(sockets):
            connection.sendall(command(place) if callable(command) else command)
        places = {connection.fileno(): place for place, connection in enumerate(sockets)}
        replies = {}
        for number, reply in self.answers(len(sockets), seconds):
            replies[places[number]] = reply
        return [replies[place] for place in range(len(sockets))]

    def answers(self, count: int, seconds: float) -> Iterator[tuple[int, Any]]:
        """Yields this many replies as they arrive: (file descriptor, reply)."""
        deadline = time.monotonic() + seconds
        while count > 0:
            ready = self.ready.poll(max(0, deadline - time.monotonic()))
            if not ready:
                sys.exit(f"benchmark: {count:,} of {len(self.members):,} connections had no answer within {seconds} s")
            for number, _ in ready:
                connection, replies = self.members[number]
                data = connection.recv(1 << 16)
                if not data:
                    sys.exit("benchmark: the sidecar closed a connection that it had taken")
                for reply in replies.feed(data):
                    count -= 1
                    yield number, reply

    def close(self) -> None:
        self.ready.close()
        for connection in self.sockets:
            connection.close()
        self.members = {}


class Idlers:
    """Connections that say nothing more once they are open. Another process holds them, so that they do not slow down
    whatever this one does. It forks: make it before other connections."""

    def __init__(self, port: int, count: int) -> None:
        processes = multiprocessing.get_context("fork")
        self.orders, theirs = processes.Pipe()
        self.process = processes.Process(target=hold, args=(port, count, theirs), daemon=True)
        self.process.start()
        theirs.close()
        try:
            self.orders.recv()
        except EOFError:
            sys.exit(f"benchmark: {count:,} connections could not be opened")

    def close(self) -> None:
        self.orders.send("close")
        self.process.join()


def hold(port: int, count: int, orders: Connection) -> None:
    raise_open_files()
    crowd = Crowd(port, count)
    orders.send("open")
    orders.recv()
    crowd.close()


def raise_open_files() -> int | None:
    """Lets this process and those that it starts open as many files as they may. Returns how many, or None if there is
    no bound."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return None if most == resource.RLIM_INFINITY else most
