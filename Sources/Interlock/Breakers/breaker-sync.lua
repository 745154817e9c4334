-- needs: breaker, breaker-ends
-- Reads a breaker. Restores it if Redis has lost it, and records the digest of the service's configuration.
--
-- KEYS  see `breaker.lua`
-- ARGV  1 the call; it may also have: known (the fields of the sidecar's snapshot), configuration (the digest),
--         declares
-- Reply see `breaker.lua`; result is 1
--
-- Guarantees that a breaker is restored only from a later generation, and that the digest is stored if there is none,
-- or if the sidecar declares it.

if call.known and tonumber(call.known.generation) > generation then
  write(call.known)
  state, generation = hash.state, tonumber(hash.generation)
  announce()
end
apply_ends()
if call.configuration and call.configuration ~= hash.configuration and (call.declares or not hash.configuration) then
  write({configuration = call.configuration})
end
return reply(1)
