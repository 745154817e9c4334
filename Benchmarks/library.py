"""How many locks the library takes and gives back, in a process of its own, without a sidecar."""

import load
from rig import say

CALLERS = 64


def measure(rig, table, rounds, scale):
    seconds = max(1, 5 * scale / 100)
    many, sets, one, near, other = [], [], [], [], []
    for number in range(1, rounds + 1):
        say(f"library, {CALLERS} callers and SET, round {number} of {rounds}, {2 * seconds:.0f} s …")
        many.append(cycles_per_second(rig, CALLERS, seconds))
        sets.append(load.redis_benchmark(
            rig.redis_port, ["SET", "key:__rand_int__", "v", "NX", "PX", "1000"], requests=400_000 * scale // 100,
            names=100_000_000))
        say(f"library and redis-py, one caller each, round {number} of {rounds}, {3 * seconds:.0f} s …")
        one.append(cycles_per_second(rig, 1, seconds))
        near.append(cycles_per_second(rig, 1, seconds, "--near"))
        peer = load.peer("redis-py", rig.redis_port, 1, seconds)
        other.append(peer["cycles"] / peer["seconds"])
    table.ratio(f"library, {CALLERS} callers: locks taken and given back ÷ SET NX PX, 50 clients", many, sets, 0.4)
    table.ratio("library, one caller: locks taken and given back ÷ redis-py's", one, other, 1.5)
    table.ratio("library, one caller where the coordinator lives ÷ redis-py's", near, other, 1.5)


def cycles_per_second(rig, callers, seconds, *options, generator=load.GENERATOR):
    figures = load.own("library", "--redis", rig.redis_url, "--callers", callers, *options, seconds=seconds, generator=generator)
    return figures["cycles"] / figures["seconds"]
