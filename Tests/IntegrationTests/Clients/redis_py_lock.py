"""redis-py's own `Lock` and Interlock's locks on the same keys: `python redis_py_lock.py RESP_PORT REDIS_SOCKET`.

The sidecar must have `locks.key_prefix: ""`, so that a lock's key is its name. Prints `fine` at the end, and measured
times on standard error.
"""

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import redis
from redis.exceptions import LockError, LockNotOwnedError
from redis.lock import Lock

port, redis_socket = int(sys.argv[1]), sys.argv[2]
server = redis.Redis(unix_socket_path=redis_socket, decode_responses=True)
sidecar = redis.Redis(port=port, decode_responses=True)
# Each thread waits on its own connection: a call occupies a connection of the pool until it ends.
threads = ThreadPoolExecutor(8)

OTHER_TOKEN = "somebody/0123456789abcdef0123456789abcdef"
# Generous: it only distinguishes a wake-up from the periodic recheck.
PROMPT_SECONDS = 1


def acquire(name: str, *options: object, ttl: int = 30_000) -> str | None:
    """Returns Interlock's token, or None if the lock is held."""
    lease = sidecar.execute_command("LOCK.ACQUIRE", name, ttl, *options)
    return lease and lease[0]


def release(name: str, token: str) -> int:
    return sidecar.execute_command("LOCK.RELEASE", name, token)


def information(name: str) -> dict[str, Any] | None:
    """Returns LOCK.INFO as a dictionary, or None if the lock is free."""
    fields = sidecar.execute_command("LOCK.INFO", name)
    return fields and dict(zip(fields[::2], fields[1::2], strict=True))


def redis_py_lock(name: str, timeout: float | None = 30) -> Lock:
    """Returns redis-py's lock, which any thread may release."""
    return server.lock(name, timeout=timeout, sleep=0.005, thread_local=False)


def waiter(name: str, milliseconds: int = 10_000) -> Future[tuple[str | None, float]]:
    """Queues a waiter of Interlock. Returns a future of its token and of the time when it acquired the lock."""
    future = threads.submit(lambda: (acquire(name, "WAIT", milliseconds), time.monotonic()))
    wait_until(lambda: (information(name) or {}).get("waiters") == 1, f"a waiter is queued for {name}")
    return future


def wait_until(condition: Callable[[], object], expectation: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {expectation}"
        time.sleep(0.002)


def expect_error(error: type[Exception], call: Callable[..., object], *arguments: object) -> None:
    try:
        call(*arguments)
    except error:
        return
    raise AssertionError(f"{call.__name__} was not rejected")


def woken_token(case: str, future: Future[tuple[str | None, float]], since: float) -> str:
    """Returns the token of a waiter that should be woken at `since`."""
    token, at = future.result(timeout=30)
    assert token, f"{case}: no waiter was woken"
    print(f"{case}: the waiter acquired it after {(at - since) * 1000:.1f} ms", file=sys.stderr)
    assert at - since < PROMPT_SECONDS, f"{case}: {at - since:.3f} s"
    return token


# A lock of redis-py, with and without a TTL: Interlock is refused, reports the label `foreign` and does not change it.
for timeout in (30, None):
    name = f"redis-py-{timeout}"
    other_lock = redis_py_lock(name, timeout)
    assert other_lock.acquire(blocking=False)
    assert acquire(name) is None
    info = information(name) or {}
    assert info["label"] == "foreign", info
    assert info["ttl_ms"] == -1 if timeout is None else 0 < info["ttl_ms"] <= 30_000, info
    assert sidecar.execute_command("LOCK.RENEW", name, OTHER_TOKEN, 60_000) is None
    assert release(name, OTHER_TOKEN) == 0
    assert other_lock.owned()
    assert timeout is None or server.pttl(name) <= 30_000
    other_lock.release()
    token = acquire(name)
    assert token and server.get(name) == token
    assert release(name, token) == 1

# A lock of Interlock: neither redis-py's acquire nor its scripts get it, with an expired token …
name = "interlock"
other_lock = redis_py_lock(name, timeout=0.3)
assert other_lock.acquire(blocking=False)
token = acquire(name, "WAIT", 10_000)
assert token, "an expired lock of redis-py's was not granted"
expect_error(LockNotOwnedError, other_lock.extend, 60)
expect_error(LockNotOwnedError, other_lock.extend, 60, True)
expect_error(LockNotOwnedError, other_lock.reacquire)
expect_error(LockNotOwnedError, other_lock.release)
assert not other_lock.acquire(blocking=False)
# … or without a token.
other = redis_py_lock(name)
assert not other.acquire(blocking=False)
assert other.locked() and not other.owned()
expect_error(LockError, other.extend, 60)
expect_error(LockError, other.reacquire)
expect_error(LockError, other.release)
assert server.get(name) == token and 0 < server.pttl(name) <= 30_000
assert 0 < sidecar.execute_command("LOCK.RENEW", name, token, 20_000) < 20_000
assert release(name, token) == 1
assert other.acquire(blocking=False)
# redis-py's scripts still work on its own lock.
assert other.extend(60) and server.pttl(name) > 60_000
assert other.extend(10, True) and server.pttl(name) <= 10_000
assert other.reacquire() and server.pttl(name) > 10_000
other.release()

# redis-py's release wakes Interlock's waiter.
name = "released"
other_lock = redis_py_lock(name)
assert other_lock.acquire(blocking=False)
waiting = waiter(name)
since = time.monotonic()
other_lock.release()
assert release(name, woken_token("released by redis-py", waiting, since)) == 1

# The end of its lease wakes it too. An extended lease lasts until its new end.
name = "expired"
other_lock = redis_py_lock(name, timeout=0.3)
since = time.monotonic() + 0.3
assert other_lock.acquire(blocking=False)
waiting = waiter(name)
assert release(name, woken_token("expired at redis-py's", waiting, since)) == 1

name = "extended"
other_lock = redis_py_lock(name, timeout=0.5)
assert other_lock.acquire(blocking=False)
waiting = waiter(name)
assert other_lock.extend(30)
time.sleep(0.7)
assert other_lock.owned() and not waiting.done(), "a waiter took a lock that had been extended"
since = time.monotonic()
other_lock.release()
assert release(name, woken_token("extended, then released by redis-py", waiting, since)) == 1

# A blocking acquire of redis-py's gets the lock after Interlock's release, but does not pass Interlock's waiter.
name = "blocking"
token = acquire(name)
assert token
other_lock = redis_py_lock(name)
blocking = threads.submit(other_lock.acquire, blocking_timeout=20)
time.sleep(0.05)
assert not blocking.done()
waiting = waiter(name)
assert release(name, token) == 1
token, _ = waiting.result(timeout=30)
assert token and server.get(name) == token and not blocking.done()
assert release(name, token) == 1
assert blocking.result(timeout=30) and other_lock.owned()
other_lock.release()

# Both libraries compete: never two concurrent holders.
name = "shared"
inside: list[str] = []
holder_counts: list[int] = []
gate = threading.Lock()


def visit(visitor: str) -> None:
    with gate:
        inside.append(visitor)
        holder_counts.append(len(inside))
    time.sleep(0.001)
    with gate:
        inside.remove(visitor)


def use_redis_py(visitor: str) -> None:
    lock = redis_py_lock(name)
    for _ in range(10):
        assert lock.acquire(blocking_timeout=60)
        visit(visitor)
        lock.release()


def use_interlock(visitor: str) -> None:
    for _ in range(10):
        token = acquire(name, "WAIT", 60_000)
        assert token
        visit(visitor)
        assert release(name, token) == 1


visits = [
    threads.submit(side, f"{side.__name__} {number}") for number in range(2) for side in (use_redis_py, use_interlock)
]
for future in visits:
    future.result(timeout=100)
assert len(holder_counts) == 40 and max(holder_counts) == 1, f"{max(holder_counts)} held it concurrently"
wait_until(lambda: not server.exists(name), "the lock is free")
print("fine")
