"""The faults and the load of one part. A seed and a number determine them, so that they are the same for every peer."""

import random
from typing import NamedTuple

#: The ways to lose a server: SIGKILL, SIGSTOP, or a network partition.
LOSSES = ("killed", "stopped", "partitioned")
#: The lease, in milliseconds. etcd has none below 2 s.
TTL_MS = 2_000
#: The longest wait for a lock, in milliseconds. python-redis-lock rejects a wait above the lease.
WAIT_MS = 2_000
#: Client processes, and the locks that they share. Each client has one more lock, which no other client takes.
CLIENTS, LOCKS = 8, 4
#: The fractions of jobs that use the client's own lock, and that renew, overstay and forget.
OWN, RENEW, OVERSTAY, FORGET = 0.2, 0.01, 0.005, 0.0025
#: Redis servers of a quorum, as pottery and Redis's page on distributed locks recommend, and members of etcd.
SERVERS, MEMBERS = 5, 3
#: Seconds of load after the lost server is reachable again. The judge allows RECOVERY seconds after each fault.
AFTERWARDS, RECOVERY = 9.0, 5.0


class ClientFault(NamedTuple):
    """A client process is killed and replaced, or stopped for longer than a lease."""

    at: float
    client: int
    #: Seconds of the stop; 0 if the client is killed.
    length: float


class Plan(NamedTuple):
    """The faults of one part. Times are seconds from the first request."""

    loss: str
    lost_at: float
    restored_at: float
    #: The server of a quorum that is lost. Elsewhere it is the primary or the leader.
    server: int
    clients: tuple[ClientFault, ...]


class Job(NamedTuple):
    """One use of a lock by a client. Times are seconds."""

    lock: int
    #: `release`, `renew` (until the hold is over), `overstay` (writes after the lease has ended) or `forget`.
    kind: str
    hold: float
    pause: float


def plan(seed: int, number: int) -> Plan:
    """Returns the faults of the failover with this number, which counts from 0."""
    draw = random.Random(f"faults {seed} {number}")
    lost_at = draw.uniform(4, 6)
    restored_at = lost_at + draw.uniform(5, 8)
    server = draw.randrange(SERVERS)
    killed, stopped, killed_later = draw.sample(range(CLIENTS), 3)
    stop = draw.uniform(1.2, 2) * TTL_MS / 1000
    clients = (
        ClientFault(draw.uniform(1, 3), killed, 0),
        ClientFault(lost_at - draw.uniform(0, 2), stopped, stop),
        ClientFault(restored_at + draw.uniform(1, 3), killed_later, 0),
    )
    return Plan(LOSSES[number % len(LOSSES)], lost_at, restored_at, server, clients)


def jobs(seed: int, number: int, client: int) -> "Jobs":
    return Jobs(random.Random(f"jobs {seed} {number} {client}"), LOCKS + client % CLIENTS)


class Jobs:
    """An endless sequence of jobs."""

    def __init__(self, draw: random.Random, own_lock: int) -> None:
        self.draw = draw
        self.own_lock = own_lock

    def next(self) -> Job:
        lock = self.own_lock if self.draw.random() < OWN else self.draw.randrange(LOCKS)
        point, share, pause = self.draw.random(), self.draw.random(), self.draw.uniform(0.001, 0.03)
        ttl = TTL_MS / 1000
        if point < RENEW:
            return Job(lock, "renew", (1 + share * 0.6) * ttl, pause)
        if point < RENEW + OVERSTAY:
            return Job(lock, "overstay", (0.05 + share * 0.5) * ttl, pause)
        if point < RENEW + OVERSTAY + FORGET:
            return Job(lock, "forget", 0, pause)
        return Job(lock, "release", 0.001 + share * 0.03, pause)
