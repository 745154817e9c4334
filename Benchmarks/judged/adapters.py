"""An adapter with the same four calls for each peer. Runs in the virtual environment, which has the libraries.

An adapter returns the result that its library reports. An exception, except for a lost lock, means that the call failed
or that its effect is unknown.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from judged.plan import TTL_MS

#: The margin that a holder subtracts from a lease if its library does not: 1% and 2 ms, as in Interlock and Redlock.
MARGIN_MS = TTL_MS // 100 + 2
#: redis-py's example for Sentinel, in seconds.
SENTINEL_TIMEOUT = 0.1


class Grant(NamedTuple):
    """A granted lock."""

    #: The end of the lease by CLOCK_MONOTONIC in nanoseconds, if the library states it.
    until: int | None
    #: The fence, if the library has one.
    fence: int | None


class Locker(Protocol):
    """One client of a peer. It holds at most one lock."""

    def acquire(self, name: str, wait_ms: int) -> Grant | None:
        """Returns None if another client kept the lock for the whole wait."""

    def extend(self) -> int | bool | None:
        """Returns False if the lock is lost, otherwise the end of the lease if the library states it, or None."""

    def release(self) -> bool:
        """Returns whether the client still held the lock, according to the library."""

    def abandon(self) -> None:
        """Stops any renewal in the background, as a pause of the process would."""


class Target(NamedTuple):
    """The servers of a client."""

    #: The servers, through relays if the topology has them, or the sidecar.
    ports: list[int]
    sentinels: list[int]
    primary: str
    #: The program that calls libraries in Go.
    program: str


def clients_of(target: Target, timeout: float | None) -> list[Any]:
    """Returns redis-py's clients: one behind Sentinels, or one per server."""
    import redis
    import redis.sentinel

    if target.sentinels:
        sentinels = redis.sentinel.Sentinel(
            [("127.0.0.1", port) for port in target.sentinels], socket_timeout=SENTINEL_TIMEOUT
        )
        return [sentinels.master_for(target.primary, socket_timeout=timeout)]
    return [redis.Redis(port=port, socket_timeout=timeout) for port in target.ports]


class RedisPy:
    """redis-py's Lock."""

    def __init__(self, target: Target) -> None:
        self.client = clients_of(target, SENTINEL_TIMEOUT if target.sentinels else None)[0]
        self.lock: Any = None

    def acquire(self, name: str, wait_ms: int) -> Grant | None:
        self.lock = self.client.lock(name, timeout=TTL_MS / 1000, blocking_timeout=wait_ms / 1000)
        return Grant(None, None) if self.lock.acquire() else None

    def extend(self) -> int | bool | None:
        from redis.exceptions import LockNotOwnedError

        try:
            self.lock.reacquire()
        except LockNotOwnedError:
            return False
        return None

    def release(self) -> bool:
        from redis.exceptions import LockNotOwnedError

        try:
            self.lock.release()
        except LockNotOwnedError:
            return False
        return True

    def abandon(self) -> None:
        pass


class PythonRedisLock:
    """python-redis-lock."""

    def __init__(self, target: Target) -> None:
        # Its waiters block in BLPOP for the whole wait, so a shorter timeout would interrupt them.
        self.client = clients_of(target, TTL_MS / 1000 + 1 if target.sentinels else None)[0]
        self.lock: Any = None

    def acquire(self, name: str, wait_ms: int) -> Grant | None:
        import redis_lock

        self.lock = redis_lock.Lock(self.client, name, expire=TTL_MS // 1000)
        return Grant(None, None) if self.lock.acquire(timeout=wait_ms // 1000) else None

    def extend(self) -> int | bool | None:
        import redis_lock

        try:
            self.lock.extend()
        except redis_lock.NotAcquired:
            return False
        return None

    def release(self) -> bool:
        import redis_lock

        try:
            self.lock.release()
        except redis_lock.NotAcquired:
            return False
        return True

    def abandon(self) -> None:
        pass


class Pottery:
    """pottery's Redlock. Failed servers count as votes against the caller, so it reports no errors."""

    def __init__(self, target: Target) -> None:
        self.masters = set(clients_of(target, SENTINEL_TIMEOUT))
        self.lock: Any = None

    def acquire(self, name: str, wait_ms: int) -> Grant | None:
        from pottery import Redlock

        self.lock = Redlock(key=name, masters=self.masters, auto_release_time=TTL_MS / 1000)
        return Grant(self.until(), None) if self.lock.acquire(timeout=wait_ms / 1000) else None

    def until(self) -> int:
        asked = time.monotonic_ns()
        return asked + int(self.lock.locked() * 1e9)

    def extend(self) -> int | bool | None:
        from pottery import ExtendUnlockedLock, TooManyExtensions

        try:
            self.lock.extend()
        except ExtendUnlockedLock as error:
            if error.redis_errors:
                raise
            return False
        except TooManyExtensions:
            # The library allows three extensions, and the lock is still held.
            pass
        return self.until()

    def release(self) -> bool:
        from pottery import ReleaseUnlockedLock

        try:
            self.lock.release()
        except ReleaseUnlockedLock as error:
            if error.redis_errors:
                raise
            return False
        return True

    def abandon(self) -> None:
        pass


class Interlock:
    """A sidecar through redis-py, as in the README."""

    def __init__(self, target: Target) -> None:
        from redis import Redis, backoff, retry

        self.client = Redis(port=target.ports[0], retry=retry.Retry(backoff.NoBackoff(), 0))
        self.name = self.token = ""

    def acquire(self, name: str, wait_ms: int) -> Grant | None:
        lease = self.client.execute_command("LOCK.ACQUIRE", name, TTL_MS, "WAIT", wait_ms)
        if lease is None:
            return None
        self.name, self.token = name, lease[0]
        # The validity counts from the reply, but a caller may be paused before it reads the reply.
        return Grant(None, lease[1])

    def extend(self) -> int | bool | None:
        asked = time.monotonic_ns()
        valid_ms = self.client.execute_command("LOCK.RENEW", self.name, self.token, TTL_MS)
        return False if valid_ms is None else asked + valid_ms * 1_000_000

    def release(self) -> bool:
        return bool(self.client.execute_command("LOCK.RELEASE", self.name, self.token))

    def abandon(self) -> None:
        pass


class GoLibrary:
    """redsync or etcd's own client, in a child process that is killed and stopped together with this one."""

    def __init__(self, library: str, target: Target) -> None:
        words = {"library": library, "ttl": TTL_MS, "ports": [] if target.sentinels else target.ports}
        words |= {"sentinels": target.sentinels, "primary": target.primary}
        self.process = subprocess.Popen(
            [target.program, json.dumps(words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.read()

    def read(self) -> dict[str, Any]:
        """Returns the next line. A program that has ended ends the client, too, since this is no result of the peer."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the Go program ended with {self.process.wait()}")
        return json.loads(line)

    def call(self, op: str, **words: object) -> tuple[str, int, dict[str, Any]]:
        """Returns the result, the end of the lease and the whole answer."""
        assert self.process.stdin
        asked = time.monotonic_ns()
        try:
            self.process.stdin.write(json.dumps({"op": op, **words}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read() says how it ended.
        answer = self.read()
        if answer["result"] == "failed":
            raise ConnectionError(answer["reason"])
        return answer["result"], asked + answer.get("valid", 0) * 1_000_000, answer

    def acquire(self, name: str, wait_ms: int) -> Grant | None:
        result, until, answer = self.call("acquire", name=name, wait=wait_ms)
        return Grant(until, answer.get("fence")) if result == "granted" else None

    def extend(self) -> int | bool | None:
        result, until, _ = self.call("extend")
        return until if result == "renewed" else False

    def release(self) -> bool:
        return self.call("release")[0] == "released"

    def abandon(self) -> None:
        self.call("abandon")


LOCKERS: dict[str, Callable[[Target], Locker]] = {
    "redis-py": RedisPy,
    "python-redis-lock": PythonRedisLock,
    "pottery": Pottery,
    "redsync": lambda target: GoLibrary("redsync", target),
    "etcd": lambda target: GoLibrary("etcd", target),
    "interlock": Interlock,
    "interlock-no-wait": Interlock,
}
