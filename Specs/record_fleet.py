"""Records the commands that a fleet of real sidecars sends to a real Redis, for `check_traces.py --monitor`.

Starts Redis, sidecars and `interlock bench mixed`, and meanwhile kills, stops and restarts sidecars. The folder then
contains redis.monitor (every command that Redis ran) and redis.replies (the replies of the scripts).

Exits with 0 if the load ended well, with 1 if not, with 64 if the command line is invalid, and with 69 if a program is
missing.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "Benchmarks"))
from check import UNAVAILABLE, Parser
from rig.servers import BENCH, BINARY, Rig, Sidecar, free_port, wait_until

RECORDER = Path(__file__).resolve().parent / "traces" / "record.py"
# Limits of every algorithm, and breakers that open for every cause that callers can bring about.
SERVICES = """
services:
  fixed: { limits: [ { limit: 60, per: 1s }, { limit: 9, per: 1s, per_subject: true } ] }
  gcra: { limits: [ { limit: 90, per: 1s, algorithm: gcra, burst: 5 } ], on_limit: { action: wait, patience: 1s } }
  sliding: { limits: [ { limit: 40, per: 1s, algorithm: sliding } ] }
  rate: { breaker: { failure_rate: 50%, window: 2s, minimum_calls: 10, open_for: 300ms..800ms, half_open_permits: 2 } }
  votes: { breaker: { consecutive_failures: 3, reporters: 2, open_for: 300ms..500ms } }
  calls: { breaker: { window_calls: 20, failure_rate: 40%, slow_call: 20ms, open_for: 300ms..600ms } }
"""
NAMES = ("fixed", "gcra", "sliding", "rate", "votes", "calls")


class RecordedRig(Rig):
    """A rig whose sidecars reach Redis through the recorder, and which records MONITOR from the start."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SERVICES)
        self.results = folder
        self.relay_port = free_port()

    @property
    def redis_url(self) -> str:
        """The address for the sidecars."""
        return f"redis://127.0.0.1:{self.relay_port}"

    def start_redis(self) -> None:
        """Starts Redis, the recording of its commands, and the relay."""
        super().start_redis()
        monitor = self.results / "redis.monitor"
        with monitor.open("wb") as file:
            self.start("monitor", "redis-cli", "-p", self.redis_port, "MONITOR", stdout=file)
        wait_until(lambda: b"OK" in monitor.read_bytes(), "MONITOR")
        replies = self.results / "redis.replies"
        self.start("relay", sys.executable, RECORDER, self.relay_port, self.redis_port, replies)
        wait_until(replies.exists, "the start of the relay")


def disturb(rig: RecordedRig, sidecars: list[Sidecar], until: float, chance: random.Random) -> None:
    """Kills, restarts, stops and resumes sidecars, one at a time, until the time comes."""
    while time.monotonic() + 3 < until:
        time.sleep(chance.uniform(0.5, 1.5))
        index = chance.randrange(1, len(sidecars))
        process = sidecars[index].process
        if chance.random() < 0.5:
            process.send_signal(signal.SIGSTOP)
            time.sleep(chance.uniform(0.2, 1.5))
            process.send_signal(signal.SIGCONT)
        else:
            process.kill()
            process.wait()
            rig.processes.remove(process)
            sidecars[index] = rig.start_sidecar(port=sidecars[index].port)


def main() -> int:
    """Runs the fleet."""
    parser = Parser(description="Record the calls of a real fleet.")
    parser.add_argument("folder", type=Path, help="a new folder for the recordings")
    parser.add_argument("--seconds", type=int, default=60, help="the seconds of load")
    parser.add_argument("--rate", type=int, default=1500, help="operations per second")
    parser.add_argument("--fleet", type=int, default=3, help="the number of sidecars, at least 2: one is never killed")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the load and the faults")
    options = parser.parse_args()
    if options.fleet < 2:
        parser.error(f"--fleet: expected at least 2 sidecars, got {options.fleet}")
    if options.folder.exists():
        parser.error(f"{options.folder} exists; name a new folder")
    missing = [str(path) for path in (BINARY, BENCH) if not path.exists()]
    missing += [name for name in ("redis-server", "redis-cli") if not shutil.which(name)]
    if missing:
        print(f"specs: no such program: {', '.join(missing)}; run `make build`", file=sys.stderr)
        return UNAVAILABLE
    options.folder.mkdir(parents=True)
    with RecordedRig(options.folder) as rig:
        sidecars = rig.start_fleet(options.fleet)
        command = [BENCH, "mixed", "--mix", "lock=50,limit=30,permit=20", "--names", "12", "--ttl", "400ms"]
        command += ["--wait", "500ms", "--hold", "0ms..60ms", "--clients", "60", "--seed", options.seed]
        command += ["--duration", f"{options.seconds}s", "--rate", options.rate]
        command += [word for sidecar in sidecars for word in ("--sidecars", sidecar.address)]
        command += [word for name in NAMES for word in ("--service", name)]
        until = time.monotonic() + options.seconds
        load = rig.start("load", *command)
        disturb(rig, sidecars, until, random.Random(options.seed))
        print(f"specs: {options.seconds} s of load and faults are over", file=sys.stderr)
        try:
            code = load.wait(60)
        except subprocess.TimeoutExpired:
            print("specs: the load did not end", file=sys.stderr)
            return 1
        print((rig.folder / "load.log").read_text())
        for sidecar in sidecars:
            rig.stop(sidecar.process)
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
