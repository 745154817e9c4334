-- needs: breaker, breaker-change, breaker-ends
-- Half-opens a breaker whose open time is over.
--
-- KEYS  see `breaker.lua`
-- ARGV  1 the call; it also has: expect
-- Reply see `breaker.lua`; result is 1 if this call half-opened the breaker
--
-- Guarantees that an open time never gets shorter.

local is_due = apply_ends()
if not is_expected() or is_forced() or state ~= 'open' or not is_due then return reply(0) end
change('half_open', hash.cause, 0, {reason = hash.reason})
return reply(1)
