-- needs: breaker, breaker-ends, breaker-open, breaker-votes
-- Casts a sidecar's vote that calls fail, and opens the breaker when enough sidecars have cast theirs.
--
-- KEYS  see `breaker.lua`
-- ARGV  1 the call; it also has: expect, cause, lapse (ms, how long the vote counts), reporters (how many must vote),
--         and what `breaker-open.lua` reads
-- Reply see `breaker.lua`; result is 1 if this vote opened the breaker
--
-- Guarantees that a sidecar counts once, and only while its vote lasts.

apply_ends()
if not is_expected() or is_forced() or state ~= 'closed' then return reply(0) end
cast_vote(call.cause, call.lapse)
if count_votes(false) < call.reporters then return reply(0) end
open(call.cause)
return reply(1)
