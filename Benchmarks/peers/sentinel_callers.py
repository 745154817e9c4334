"""Acquires one new lock after another, through a sidecar or redis-py's Sentinel client, even while nothing answers.

Runs in the virtual environment, which has the library. Prints a line for each lock that was granted: the moment by the
monotonic clock, which all processes of a machine share, and the key. Ends with its parent.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Callable

import redis
import redis.sentinel

#: Seconds, long enough that no lock expires before it is checked.
LEASE = 60
#: Seconds after which a call is abandoned.
TIMEOUT = 0.5
#: Seconds between two calls.
PAUSE = 0.002


def interlock(ports: list[int], _: str) -> Callable[[str], object]:
    client = redis.Redis(port=ports[0], socket_timeout=5)
    return lambda name: client.execute_command("LOCK.ACQUIRE", name, LEASE * 1000)


def redis_py(ports: list[int], primary: str) -> Callable[[str], object]:
    sentinels = redis.sentinel.Sentinel([("127.0.0.1", port) for port in ports], socket_timeout=TIMEOUT)
    client = sentinels.master_for(primary, socket_timeout=TIMEOUT)
    return lambda name: client.set(name, "1", nx=True, ex=LEASE)


CALLERS = {"interlock": interlock, "redis-py": redis_py}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("caller", choices=CALLERS)
    parser.add_argument("primary")
    parser.add_argument("ports", type=int, nargs="+")
    options = parser.parse_args()
    call = CALLERS[options.caller](options.ports, options.primary)
    for number in itertools.count():
        name = f"{options.caller}-{number}"
        try:
            granted = call(name)
        except redis.RedisError:
            granted = None
        if granted:
            sys.stdout.write(f"{time.monotonic_ns()} {name}\n")
            sys.stdout.flush()
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
