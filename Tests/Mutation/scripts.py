"""Known bugs in the product's Lua scripts, as in `seeded.py`. Real runs must show each of them too."""

from seeded import Bug

#: Clients that contend often, forget to release, overstay and vanish.
CROWD = ("mixed", "--names", "60", "--ttl", "1s", "--wait", "2s", "--rate", "1500", "--clients", "160")
#: A few semaphores and reader-writer locks, held for long.
HOLDERS = (
    "mixed",
    "--mix",
    "lock=100",
    "--names",
    "10",
    "--ttl",
    "1s",
    "--hold",
    "0..40ms",
    "--rate",
    "300",
    "--clients",
    "100",
)
#: Far more calls than the limits allow.
RUSH = ("limit", "--rate", "4000", "--clients", "100")
#: Long calls to services that fail now and then.
CALLS = ("mixed", "--mix", "permit=100", "--hold", "0..60ms", "--rate", "2000", "--clients", "300")

BUGS = [
    # A stopped writer keeps readers out.
    Bug(
        "silent-writer-waited-for",
        "groups.lua",
        "      if elapsed < claim_window then return first, claim_window - elapsed end\n",
        "      return first, claim_window\n",
        ("free-locks",),
        story="SimulationTests.LockFaultTests/stoppedWriter\\(",
    ),
    # After a loss of data an outage report replaces a forced state.
    Bug(
        "outage-report-of-an-older-generation",
        "breaker-down.lua",
        "if generation < (tonumber(call.at_least) or 0) then return reply(0) end\n",
        "",
        ("forced-states", "open-breakers"),
        story="SimulationTests.BreakerFaultTests/forcedSurvives\\(",
    ),
    # A jump of the Redis clock ends a state that an operator forced.
    Bug(
        "forced-end-by-redis-clock",
        "breaker-ends.lua",
        "local is_forced_due = is_over('forced_until', 'forced_over')\n",
        "local is_forced_due = (hash.forced or '') ~= '' and tonumber(hash.forced_until) > 0 "
        "and tonumber(hash.forced_until) <= now\n",
        ("forced-states",),
        story="SimulationTests.BreakerClockTests/forcedToItsEnd\\(",
    ),
    # A restore overtakes a later lease, or arrives when its lease is over.
    Bug(
        "restore-at-any-time",
        "quorum-fence.lua",
        "elapsed >= 0 and elapsed <= tonumber(window) and elapsed < tonumber(ttl)",
        "true",
        ("exclusion", "free-locks"),
        story="SimulationTests.QuorumRestartScenarioTests/restoredEnd\\(",
    ),
    Bug(
        "release-without-token",
        "release-quick.lua",
        "if holder ~= token then",
        "if not holder then",
        # A client that received "held" releases the lock anyway: the checkers take the answer 1 for a lease that it had.
        ("exclusion", "fenced-writes", "free-locks", "kept-leases"),
        CROWD,
    ),
    Bug(
        "renew-without-token",
        "renew.lua",
        "if holder ~= token then",
        "if not holder then",
        ("exclusion",),
        CROWD,
    ),
    # A copy of a release that arrives late ends a later lease of the same owner.
    Bug(
        "late-copy-touches-later-lease",
        "fenced.lua",
        "if redis.call('GET', KEYS[1]) == owner and (redis.call('GET', KEYS[2]) or only_fence) ~= only_fence then return 0 end\n",
        "",
        ("exclusion", "kept-leases"),
    ),
    Bug(
        "acquire-without-check",
        "acquire-free.lua",
        "redis.call('SET', KEYS[1], token, 'NX', 'PX', ttl)",
        "redis.call('SET', KEYS[1], token, 'PX', ttl)",
        ("exclusion",),
        CROWD,
    ),
    Bug(
        "no-fence",
        "fence-counter.lua",
        "  local fence = redis.pcall('INCRBY', KEYS[2], '1')\n",
        "  local fence = 1\n  if fence then return fence end\n",
        ("rising-fences",),
        CROWD,
    ),
    # A server takes over without the last grants.
    Bug(
        "turn-claimed-with-its-own-fence",
        "acquire.lua",
        "if holder == token then fence, failure = current_fence(ttl) else fence, failure = mint(ttl) end",
        "fence, failure = current_fence(ttl)",
        ("rising-fences",),
        story="SimulationTests.FenceScenarioTests/claimedTwice\\(",
    ),
    Bug(
        "fences-by-counter-alone",
        "fence-counter.lua",
        "if fence > now - fence_slack and fence < max_exact then",
        "if fence then",
        ("rising-fences",),
        story="SimulationTests.FenceScenarioTests/counterSetBack\\(",
    ),
    Bug(
        "fences-restart-at-one",
        "fence-counter.lua",
        "if fence > now - fence_slack and fence < max_exact then",
        "if fence == 1 or fence > now - fence_slack and fence < max_exact then",
        ("rising-fences",),
        story="SimulationTests.FenceScenarioTests/wiped\\(",
    ),
    Bug(
        "fences-by-clock-alone",
        "fence-counter.lua",
        "if fence > now - fence_slack and fence < max_exact then",
        "if not fence then",
        ("rising-fences",),
        story="SimulationTests.FenceScenarioTests/clockSet\\(",
    ),
    Bug(
        "fence-lapses-before-its-time",
        "fence-counter.lua",
        "redis.call('SET', KEYS[2], now, 'PXAT', math.floor(now / 1000) + fence_lifetime)",
        "redis.call('SET', KEYS[2], now, 'PX', '3600000')",
        ("rising-fences",),
        story="SimulationTests.FenceScenarioTests/lapse\\(",
    ),
    Bug(
        "outdated-clock-trusted",
        "fence-counter.lua",
        "  if fence == 1 then\n",
        "  if not fence then\n",
        ("rising-fences",),
        story="SimulationTests.FenceScenarioTests/wipedFarAway\\(",
    ),
    Bug(
        "half-leases",
        "acquire-free.lua",
        "redis.call('SET', KEYS[1], token, 'NX', 'PX', ttl)",
        "redis.call('SET', KEYS[1], token, 'NX', 'PX', math.ceil(ttl / 2))",
        ("exclusion",),
        CROWD,
    ),
    Bug(
        "one-slot-too-many",
        "groups.lua",
        "redis.call('ZCARD', KEYS[4]) - 1 < slots",
        "redis.call('ZCARD', KEYS[4]) - 2 < slots",
        ("exclusion",),
        HOLDERS,
    ),
    Bug(
        "writers-pass-readers",
        "acquire.lua",
        "local holder = redis.call('GET', KEYS[1])\n",
        "local holder = redis.call('GET', KEYS[1])\n"
        "if holder and string.find(holder, '^shared/') and candidate ~= 'own' then\n"
        "  redis.call('SET', KEYS[1], token, 'PX', ttl)\n"
        "  return {1, mint(ttl)}\n"
        "end\n",
        ("exclusion",),
        CROWD,
    ),
    # A client that retries often enough keeps the window from ending.
    Bug(
        "every-take-begins-the-window",
        "batch.lua",
        "if taken == 0 or batch[ends + k] == 0 or left <= 0 or left > last then",
        "if true then call('PEXPIRE', KEYS[k], window)",
        ("limits-refill",),
        RUSH,
    ),
    # A clock that was set back makes a window longer.
    Bug(
        "window-of-two-windows",
        "batch.lua",
        "        if left < 0 or left > last then\n",
        "        if left < 0 or left > 2 * window then\n",
        ("limits-refill",),
        story="SimulationTests.LimitFaultTests/clockSetBackALittle\\(",
    ),
    Bug(
        "one-call-too-many",
        "take.lua",
        "= batch[limit[k] + 1], before[k], 0\n",
        "= batch[limit[k] + 1] + 1, before[k], 0\n",
        ("limits",),
        RUSH,
    ),
    Bug(
        "lost-counts",
        "reply.lua",
        "call('INCRBY', KEYS[k], taken == 1 and '1' or taken)",
        "call('SET', KEYS[k], '1', 'KEEPTTL')",
        ("limits",),
        RUSH,
    ),
    Bug(
        "trip-without-generation",
        "breaker-change.lua",
        "  generation = math.max(generation + 1 + math.floor(call.random * 1000), time[1] * 1000000 + time[2])\n",
        "  generation = math.max(generation, 1)\n",
        ("open-breakers", "trials"),
        CALLS,
    ),
    Bug(
        "trials-without-limit",
        "breaker-trial.lua",
        "if redis.call('ZCARD', KEYS[4]) + successes >= call.permits then return reply(0) end\n",
        "",
        ("trials",),
        CALLS,
    ),
]
