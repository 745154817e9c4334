-- needs: breaker, breaker-change, breaker-ends
-- Forces a breaker's state, or ends a forced state.
--
-- KEYS  see `breaker.lua`
-- ARGV  1 the call; it also has: at_least (a generation), state ("open", "closed", "disabled"; "auto": no longer
--         forced), cause, reason; optional: for (ms)
-- Reply see `breaker.lua`; result is 1
--
-- Guarantees that the forced state replaces any other, under a generation later than at_least.

correct_ends()
generation = math.max(generation, tonumber(call.at_least) or 0)
local forced_until = call['for'] and integer(now + call['for']) or '0'
if call.state == 'open' then
  change('open', call.cause, 0, {forced = 'open', forced_until = forced_until, reason = call.reason})
elseif call.state == 'auto' then
  change('closed', call.cause, 0, {reason = call.reason})
else
  change('closed', call.cause, 0, {forced = call.state, forced_until = forced_until, reason = call.reason})
end
return reply(1)
