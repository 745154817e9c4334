-- needs: breaker, breaker-ends, breaker-open
-- Opens a breaker that is not open.
--
-- KEYS  see `breaker.lua`
-- ARGV  1 the call; it also has: expect, cause, and what `breaker-open.lua` reads
-- Reply see `breaker.lua`; result is 1 if this call opened the breaker
--
-- Guarantees that neither an open time nor a forced state changes.

apply_ends()
if not is_expected() or is_forced() or state == 'open' then return reply(0) end
open(call.cause)
return reply(1)
