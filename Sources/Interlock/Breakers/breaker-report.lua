-- needs: breaker, breaker-ends, breaker-open, breaker-window
-- Adds outcomes of calls to the window, and opens the breaker if too many failed or were slow.
--
-- KEYS  see `breaker.lua`
-- ARGV  1 the call; it also has: expect, trailing (failures after the last success), minimum, failure_rate,
--         consecutive, what `breaker-window.lua` and `breaker-open.lua` read; optional: slow_rate, judge (whether to
--         open)
-- Reply see `breaker.lua`; result is 1 if this report opened the breaker
--
-- Guarantees that only a closed breaker counts outcomes. A disabled breaker counts them too, to show the rates, but
-- never opens.

apply_ends()
if not is_expected() or (is_forced() and hash.forced ~= 'disabled') or state ~= 'closed' then return reply(0) end
local calls, failures, slow = add_to_window()
local run = call.trailing
if call.failures == call.calls then run = run + tonumber(hash.consecutive or 0) end
local failure_rate, slow_rate = string.format('%.3f', failures / calls), string.format('%.3f', slow / calls)
write({failure_rate = failure_rate, slow_rate = slow_rate, calls = integer(calls), consecutive = integer(run)})
if not call.judge or is_forced() then return reply(0) end
local cause
if calls >= call.minimum and failures / calls >= call.failure_rate then
  cause = 'failures'
elseif calls >= call.minimum and call.slow_rate and slow / calls >= call.slow_rate then
  cause = 'slow'
elseif call.consecutive and run >= call.consecutive then
  cause = 'consecutive'
end
if not cause then return reply(0) end
open(cause)
return reply(1)
