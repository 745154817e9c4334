-- needs: breaker, breaker-change, breaker-ends, breaker-votes
-- Reports the end of an outage: closes the breaker, or half-opens it if trials follow.
--
-- KEYS  see `breaker.lua`; 5 is the votes
-- ARGV  1 the call; it also has: expect; optional: trial (whether trials follow), quorum (how many reports make
--         an outage)
-- Reply see `breaker.lua`; result is 1 if the outage is over
--
-- Guarantees that an outage lasts while a quorum reports it, and that a breaker that is open for another cause stays
-- open.

apply_ends()
-- A sidecar withdraws its own vote at any generation. Without a quorum, one sidecar probes for all, so its report
-- replaces the votes of the others.
if call.quorum then redis.call('ZREM', KEYS[5], 'outage:' .. call.origin) else drop_votes(true) end
if not is_expected() or is_forced() or state == 'closed' or hash.cause ~= 'outage' then return reply(0) end
if call.quorum and count_votes(true) >= call.quorum then return reply(0) end
if not call.trial then
  change('closed', 'probe', 0)
elseif state == 'open' then
  change('half_open', 'probe', 0)
end
return reply(1)
