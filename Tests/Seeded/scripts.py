"""Rules that the product's Redis scripts keep, each broken on purpose; see `seeded.py`."""

from seeded import Bug

LOCKS = "Sources/Interlock/Locks"
LIMITS = "Sources/Interlock/RateLimits"
BREAKERS = "Sources/Interlock/Breakers"

BUGS = [
    Bug(
        "release-without-token", f"{LOCKS}/release.lua",
        "if holder ~= ARGV[1] then", "if not holder then",
        ("exclusion", "fenced-writes")),
    Bug(
        "renew-without-token", f"{LOCKS}/renew.lua",
        "if holder ~= ARGV[1] then", "if not holder then",
        ("exclusion",)),
    Bug(
        "acquire-without-check", f"{LOCKS}/acquire.lua",
        "redis.call('SET', KEYS[1], token, 'NX', 'PX', ttl) then", "redis.call('SET', KEYS[1], token, 'PX', ttl) then",
        ("exclusion",)),
    Bug(
        "no-fence", f"{LOCKS}/locks.lua",
        "  local fence = time[1] * 1000000 + time[2]\n", "  local fence = 1\n  if time then return fence end\n",
        ("rising-fences",)),
    Bug(
        "half-leases", f"{LOCKS}/acquire.lua",
        "redis.call('SET', KEYS[1], token, 'NX', 'PX', ttl) then",
        "redis.call('SET', KEYS[1], token, 'NX', 'PX', math.ceil(ttl / 2)) then",
        ("exclusion",)),
    Bug(
        "one-more-place", f"{LOCKS}/groups.lua",
        "redis.call('ZCARD', KEYS[4]) - 1 < places", "redis.call('ZCARD', KEYS[4]) - 2 < places",
        ("exclusion",)),
    Bug(
        "writers-pass-readers", f"{LOCKS}/acquire.lua",
        "local holder = redis.call('GET', KEYS[1])\n",
        "local holder = redis.call('GET', KEYS[1])\n"
        "if holder and string.find(holder, '^shared/') and ARGV[4] ~= 'own' then\n"
        "  redis.call('SET', KEYS[1], token, 'PX', ttl)\n"
        "  return {1, mint(ttl)}\n"
        "end\n",
        ("exclusion",)),
    Bug(
        "counter-without-expiry", f"{LIMITS}/take.lua",
        "call('SET', KEYS[k], taken == 1 and '1' or taken, 'PX', reset)",
        "call('SET', KEYS[k], taken == 1 and '1' or taken, 'PX', 1000 * reset)",
        ("limits-refill",)),
    Bug(
        "one-more-call", f"{LIMITS}/take.lua",
        "  capacity[k] = batch[d + 1]\n", "  capacity[k] = batch[d + 1] + 1\n",
        ("limits",)),
    Bug(
        "lost-counts", f"{LIMITS}/take.lua",
        "call('INCRBY', KEYS[k], taken == 1 and '1' or taken)", "call('SET', KEYS[k], '1', 'KEEPTTL')",
        ("limits",)),
    Bug(
        "trip-without-generation", f"{BREAKERS}/breaker.lua",
        "  generation = math.max(generation + 1, time[1] * 1000000 + time[2])\n", "  generation = math.max(generation, 1)\n",
        ("open-breakers", "trials")),
    Bug(
        "trials-without-bound", f"{BREAKERS}/breaker.lua",
        "  if redis.call('ZCARD', KEYS[4]) + successes >= call.permits then return reply(0) end\n", "",
        ("trials",)),
]
