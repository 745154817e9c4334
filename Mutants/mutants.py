"""Rules of the product, broken on purpose: whoever checks a run must notice each of them.

A mutant replaces text that stands exactly once in a file of the source tree. `promise` is what the checkers must report, and
`bench` the run that must report it.
"""

from dataclasses import dataclass

LOCKS = "Sources/Interlock/Locks"
LIMITS = "Sources/Interlock/RateLimits"
BREAKERS = "Sources/Interlock/Breakers"


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    #: Any one of these is what is broken, in the words of the report.
    promises: tuple
    bench: tuple = ("mixed",)


MUTANTS = [
    Mutant(
        "release-without-token", f"{LOCKS}/release.lua",
        "if holder ~= ARGV[1] then", "if not holder then",
        ("exclusion", "fenced-writes")),
    Mutant(
        "renew-without-token", f"{LOCKS}/renew.lua",
        "if holder ~= ARGV[1] then", "if not holder then",
        ("exclusion",)),
    Mutant(
        "acquire-without-check", f"{LOCKS}/acquire.lua",
        "redis.call('SET', KEYS[1], token, 'NX', 'PX', ttl) then", "redis.call('SET', KEYS[1], token, 'PX', ttl) then",
        ("exclusion",)),
    Mutant(
        "no-fence", f"{LOCKS}/locks.lua",
        "  local fence = time[1] * 1000000 + time[2]\n", "  local fence = 1\n  if time then return fence end\n",
        ("rising-fences",)),
    Mutant(
        "validity-from-the-answer", "Sources/InterlockCore/Locks/LeaseValidity.swift",
        "sentAt.advanced(byMilliseconds: ttl - drift(ofTTL: ttl))", "sentAt.advanced(byMilliseconds: ttl + ttl / 2)",
        ("exclusion",)),
    Mutant(
        "one-more-place", f"{LOCKS}/groups.lua",
        "redis.call('ZCARD', KEYS[4]) - 1 < places", "redis.call('ZCARD', KEYS[4]) - 2 < places",
        ("exclusion",)),
    Mutant(
        "writers-pass-readers", f"{LOCKS}/acquire.lua",
        "local holder = redis.call('GET', KEYS[1])\n",
        "local holder = redis.call('GET', KEYS[1])\n"
        "if holder and string.find(holder, '^shared/') and ARGV[4] ~= 'own' then\n"
        "  redis.call('SET', KEYS[1], token, 'PX', ttl)\n"
        "  return {1, mint(ttl)}\n"
        "end\n",
        ("exclusion",)),
    Mutant(
        "counter-without-expiry", f"{LIMITS}/take.lua",
        "call('SET', KEYS[k], taken == 1 and '1' or taken, 'PX', reset)",
        "call('SET', KEYS[k], taken == 1 and '1' or taken, 'PX', 1000 * reset)",
        ("limits-refill",)),
    Mutant(
        "one-more-call", f"{LIMITS}/take.lua",
        "  capacity[k] = batch[d + 1]\n", "  capacity[k] = batch[d + 1] + 1\n",
        ("limits",)),
    Mutant(
        "lost-counts", f"{LIMITS}/take.lua",
        "call('INCRBY', KEYS[k], taken == 1 and '1' or taken)", "call('SET', KEYS[k], '1', 'KEEPTTL')",
        ("limits",)),
    Mutant(
        "trip-without-generation", f"{BREAKERS}/breaker.lua",
        "  generation = math.max(generation + 1, time[1] * 1000000 + time[2])\n", "  generation = math.max(generation, 1)\n",
        ("open-breakers", "trials")),
    Mutant(
        "trials-without-bound", f"{BREAKERS}/breaker.lua",
        "  if redis.call('ZCARD', KEYS[4]) + successes >= call.permits then return reply(0) end\n", "",
        ("trials",)),
    Mutant(
        "open-breaker-lets-pass", "Sources/InterlockCore/Breakers/Breaker.swift",
        "            return .refuse(retryAfter: openUntil.millisecondsRoundedUp(since: now))\n        case .halfOpen:",
        "            return .allow\n        case .halfOpen:",
        ("open-breakers",)),
]
