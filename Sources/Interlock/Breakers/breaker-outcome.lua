-- needs: breaker, breaker-change, breaker-ends, breaker-open
-- Reports the outcome of a trial: opens the breaker after a failure, and closes it when all trials have succeeded.
--
-- KEYS  see `breaker.lua`; 4 is the trials
-- ARGV  1 the call; it also has: expect, id (the permit's), outcome ("ok", "error", "ignore"), permits (how many trials
--         there are), and what `breaker-open.lua` reads
-- Reply see `breaker.lua`; result is 1 if the permit was in use
--
-- Guarantees that each permit is reported at most once, and frees its slot.

apply_ends()
if not is_expected() or is_forced() or state ~= 'half_open' then return reply(0) end
if redis.call('ZREM', KEYS[4], call.id) == 0 then return reply(0) end
if call.outcome == 'error' or call.pause then
  open('failures')
elseif call.outcome == 'ok' then
  local successes = tonumber(hash.successes or 0) + 1
  if successes >= call.permits then
    change('closed', 'trials', 0)
  else
    write({successes = integer(successes)})
  end
end
return reply(1)
