"""pybreaker with its state in Redis, compared to permits of a sidecar through redis-py."""

from figures.table import Table
from peers import comparison
from peers.comparison import Side
from rig import load
from rig.client import Client
from rig.servers import Rig

CALLERS = (1, 8)
CONFIGURATION = """
services:
  peers: { breaker: { failure_rate: 50%, window: 10s, minimum_calls: 20 } }
"""
EXPLANATION = """\
**pybreaker** reads its state from Redis for each call. Calls do nothing and succeed."""


def measure(rig: Rig, table: Table, rounds: int, scale: int) -> None:
    if why := load.missing_library("pybreaker"):
        table.missing("guarded calls of pybreaker", why)
        return
    seconds = max(1, 3 * scale / 100)
    redis, sidecar = Client(rig.redis_port), rig.start_sidecar()
    for callers in CALLERS:
        comparison.compare(
            table,
            "PERMIT.ACQUIRE and PERMIT.REPORT",
            "pybreaker",
            (
                Side("interlock-permit", sidecar.port, sidecar.redis_commands),
                Side("pybreaker", rig.redis_port, lambda: commands_run(redis)),
            ),
            callers,
            rounds,
            seconds,
        )
    rig.stop(sidecar.process)


def commands_run(redis: Client) -> int:
    """Returns the commands of all clients, including those of scripts, which pybreaker does not use."""
    return int(redis.info("stats")["total_commands_processed"])
