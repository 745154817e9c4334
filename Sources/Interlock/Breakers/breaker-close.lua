-- needs: breaker, breaker-change, breaker-ends
-- Closes a breaker that opened for this cause, once it is half-open or its open time is over.
--
-- KEYS  see `breaker.lua`
-- ARGV  1 the call; it also has: expect, cause ("auto" closes a breaker that opened for any cause, at any time)
-- Reply see `breaker.lua`; result is 1 if this call closed the breaker
--
-- Guarantees that a forced state does not change.

local is_due = apply_ends()
local is_over_now = state == 'half_open' or (state == 'open' and is_due)
if not is_expected() or is_forced() or state == 'closed' then return reply(0) end
if call.cause ~= 'auto' and not (is_over_now and hash.cause == call.cause) then return reply(0) end
change('closed', call.cause, 0)
return reply(1)
