-- needs: breaker, breaker-change
-- Decides whether the open time and the forced time have ended. A state ends when a sidecar has measured its duration;
-- a jump of the Redis clock does not end it.
--
-- ARGV  the call may also have the ends that its sidecar knows: until and forced_until, as stored in the hash; until_to
--         and forced_until_to, the corrected values if the Redis clock has jumped since they were written; over and
--         forced_over, if the end has passed by the sidecar's clock
--
-- Guarantees that the remaining time of a state never exceeds the full duration of that state.

-- A sidecar that knows the stored end has measured it by its own clock.
local function is_over(name, over)
  return call[over] and hash[name] and (hash[name] == call[name] or hash[name] == call[name .. '_to'])
end

-- Corrects the ends after the Redis clock has jumped. Returns whether the open time and the forced time are over.
local function correct_ends()
  local is_due = is_over('until', 'over') or tonumber(hash['until'] or 0) == 0
  local is_forced_due = is_over('forced_until', 'forced_over')
  local corrected = {}
  for _, name in ipairs({'until', 'forced_until'}) do
    if call[name .. '_to'] and call[name] == hash[name] then corrected[name] = call[name .. '_to'] end
  end
  if next(corrected) then write(corrected) end

  -- After the clock was set back, a state that began in the future begins now, and trials and votes are dropped.
  local ahead = tonumber(hash.since or 0) - now
  if ahead > 0 then
    local moved = {since = integer(now)}
    for _, name in ipairs({'until', 'forced_until'}) do
      local instant = tonumber(hash[name] or 0)
      if instant > 0 and not corrected[name] then
        instant = instant - ahead
        -- An outage may have begun long ago, so it lasts at most the time that one failed probe adds.
        if name == 'until' and hash.cause == 'outage' and hash.lapse then
          instant = math.min(instant, now + hash.lapse)
        end
        moved[name] = integer(instant)
      end
    end
    write(moved)
    redis.call('DEL', KEYS[4], KEYS[5])
  end
  return is_due, is_forced_due
end

-- Corrects the ends, and closes a breaker whose forced time is over. Returns whether the open time is over.
local function apply_ends()
  local is_due, is_forced_due = correct_ends()
  if is_forced_due then change('closed', 'auto', 0) end
  return is_due
end
