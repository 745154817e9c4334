"""A breaker of pybreaker, with its state in Redis, beside permits of a sidecar that are asked for and reported on by redis-py."""

from peers import beside
from peers.beside import Side
from rig import load
from rig.client import Client

CALLERS = (1, 8)
CONFIGURATION = """
services:
  peers: { breaker: { failure_rate: 50%, window: 10s, minimum_calls: 20 } }
"""
EXPLANATION = """\
**pybreaker**: Python processes make one guarded call after the other, each of which does nothing and succeeds. pybreaker looks into
Redis for each; Interlock is asked for a permit before it and told of the outcome after it, by redis-py, at one sidecar."""


def measure(rig, table, rounds, scale):
    if why := load.lacks("pybreaker"):
        return table.missing("guarded calls of pybreaker", why)
    seconds = max(1, 3 * scale / 100)
    redis, sidecar = Client(rig.redis_port), rig.start_sidecar()
    for callers in CALLERS:
        beside.compare(
            table, "PERMIT.ACQUIRE and PERMIT.REPORT", "pybreaker",
            (Side("interlock-permit", sidecar.port, sidecar.redis_commands),
             Side("pybreaker", rig.redis_port, lambda: commands_run(redis))),
            callers, rounds, seconds)
    rig.stop(sidecar.process)


def commands_run(redis):
    """Of everybody. What scripts call counts as well, but pybreaker runs none, and an idle sidecar hardly any."""
    return int(redis.info("stats")["total_commands_processed"])
