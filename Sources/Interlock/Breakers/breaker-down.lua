-- needs: breaker, breaker-change, breaker-ends, breaker-votes
-- Reports an outage: opens the breaker, or keeps it open, until the report lapses.
--
-- KEYS  see `breaker.lua`; 5 is the votes
-- ARGV  1 the call; it also has: at_least (a generation), reason, lapse (ms, until the next report is due); optional:
--         quorum (how many sidecars must report), seconds (whether this report counts only with an earlier one)
-- Reply see `breaker.lua`; result is 1 if the breaker is open because of the outage
--
-- Guarantees that an outage ends when no sidecar repeats the report, and that an open time never gets shorter. A
-- breaker whose generation is below at_least does not change, because Redis has lost its state, which must be restored
-- first.

apply_ends()
-- A vote belongs to its sidecar, so it counts at any generation.
if call.quorum then
  if call.seconds and count_votes(true) == 0 then return reply(0) end
  cast_vote('outage', call.lapse)
end
if generation < (tonumber(call.at_least) or 0) then return reply(0) end
if not is_expected() or is_forced() then return reply(0) end
if call.quorum and count_votes(true) < call.quorum then return reply(0) end
local ends = now + call.lapse
if state == 'open' then ends = math.max(ends, tonumber(hash['until'])) end
if state == 'open' and hash.cause == 'outage' then
  write({['until'] = integer(ends), reason = call.reason, lapse = integer(call.lapse)})
else
  change('open', 'outage', ends, {reason = call.reason, lapse = integer(call.lapse)})
end
return reply(1)
