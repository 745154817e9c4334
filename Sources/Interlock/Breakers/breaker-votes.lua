-- needs: breaker
-- The votes of sidecars that calls fail or that there is an outage. A vote lapses unless it is repeated.
--
-- KEYS and ARGV: see `breaker.lua`

local function is_outage_vote(member) return string.sub(member, 1, 7) == 'outage:' end

local function cast_vote(cause, lapse)
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now)
  redis.call('ZADD', KEYS[5], now + lapse, cause .. ':' .. call.origin)
  if redis.call('PTTL', KEYS[5]) < lapse then redis.call('PEXPIRE', KEYS[5], lapse) end
end

-- Returns the number of sidecars that report an outage (`of_outage`) or failing calls.
local function count_votes(of_outage)
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now)
  local seen, count = {}, 0
  for _, member in ipairs(redis.call('ZRANGE', KEYS[5], 0, -1)) do
    local sidecar = string.match(member, ':(.*)$')
    if is_outage_vote(member) == of_outage and not seen[sidecar] then
      seen[sidecar] = true
      count = count + 1
    end
  end
  return count
end

local function drop_votes(of_outage)
  for _, member in ipairs(redis.call('ZRANGE', KEYS[5], 0, -1)) do
    if is_outage_vote(member) == of_outage then redis.call('ZREM', KEYS[5], member) end
  end
end
