-- needs: breaker, breaker-change, breaker-ends
-- Takes one of the permits of a half-open breaker. Half-opens the breaker first if its open time is over.
--
-- KEYS  see `breaker.lua`; 4 is the trials
-- ARGV  1 the call; it also has: at_least (a generation), id (the permit's), permits (how many trials there are),
--         lifetime (ms)
-- Reply see `breaker.lua`; result is 1 if the call may proceed: it has a permit, or the breaker is closed
--
-- Guarantees that no more permits are in use than there are trials left, and that a permit that is never reported
-- lapses after its lifetime. A breaker whose generation is below at_least grants no permit, because Redis has lost its
-- state.

local is_due = apply_ends()
if not is_expected() or is_forced() or generation < tonumber(call.at_least) then return reply(0) end
if state == 'open' and is_due then change('half_open', hash.cause, 0, {reason = hash.reason}) end
if state == 'closed' then return reply(1) end
if state ~= 'half_open' then return reply(0) end
local successes = tonumber(hash.successes or 0)
-- The configured number of trials was reduced, so that enough have succeeded.
if successes >= call.permits then
  change('closed', 'trials', 0)
  return reply(1)
end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
-- After a clock step back, no permit lasts longer than its lifetime.
redis.call('ZREMRANGEBYSCORE', KEYS[4], '(' .. integer(now + call.lifetime), '+inf')
if redis.call('ZCARD', KEYS[4]) + successes >= call.permits then return reply(0) end
redis.call('ZADD', KEYS[4], now + call.lifetime, call.id)
redis.call('PEXPIRE', KEYS[4], call.lifetime)
return reply(1)
