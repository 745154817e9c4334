#!/usr/bin/env python3
"""A failover to watch: a primary with two replicas, three Sentinels and two sidecars of the release build.

Starts them in their own directory and on free ports of 127.0.0.1, and prints their addresses. Then it prints what the
sidecars report about the primary and about locks, whenever it changes. Ctrl-C stops everything.
"""

import argparse
import pathlib
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Benchmarks"))

from rig.client import Client
from rig.sentinels import NAME, SentinelRig
from rig.servers import BINARY, Sidecar

#: Seconds between two checks.
PAUSE = 0.1


def place(info: dict[str, str]) -> str:
    """Returns a sidecar's report about its Redis."""
    if info["redis_up"] != "1":
        return f"Redis is unreachable: {info['redis_failure']}"
    switched = f", switched in {info['redis_last_switch_ms']} ms" if info["redis_last_switch_ms"] else ""
    return f"the primary is {info['redis_primary']}, epoch {info['redis_epoch']}{switched}"


def lock(client: Client, name: str) -> str:
    """Returns the result of acquiring a new lock for a moment."""
    try:
        token, _, _ = client.command("LOCK.ACQUIRE", name, 1000)
        client.command("LOCK.RELEASE", name, token)
    except RuntimeError as error:
        return f"locks: {str(error).split()[0]}"
    return "locks are granted"


def watch(sidecars: list[Sidecar]) -> None:
    """Prints changes until it is interrupted."""
    clients = [Client(sidecar.port) for sidecar in sidecars]
    begin = time.monotonic()
    last: dict[str, str] = {}
    while True:
        for letter, client in zip("ab", clients, strict=True):
            for what, said in (("redis", place(client.info())), ("locks", lock(client, f"tour-{letter}"))):
                if last.get(letter + what) != said:
                    last[letter + what] = said
                    print(f"{time.monotonic() - begin:6.1f} s  sidecar {letter}: {said}", flush=True)
        time.sleep(PAUSE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=BINARY, help="another build of interlock")
    options = parser.parse_args()
    if missing := [program for program in ("redis-server", options.binary) if not shutil.which(program)]:
        print(f"failover: {missing[0]} is missing; `make build-sidecar` provides it", file=sys.stderr)
        return 69
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with SentinelRig() as rig:
            for port, process in rig.servers.items():
                role = "primary" if port == rig.redis_port else "replica"
                print(f"{role:9} 127.0.0.1:{port}  process {process.pid}")
            for port in rig.sentinels:
                print(f"{'Sentinel':9} 127.0.0.1:{port}  calls the primary {NAME}")
            sidecars = [rig.start_sidecar(binary=options.binary) for _ in range(2)]
            for letter, sidecar in zip("ab", sidecars, strict=True):
                print(f"sidecar {letter} {sidecar.address}  interlock status --sidecar {sidecar.address}")
            print(f"In another terminal: kill -9 {rig.servers[rig.redis_port].pid}   Here: Ctrl-C stops everything\n")
            watch(sidecars)
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
