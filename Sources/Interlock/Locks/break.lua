-- needs: locks, groups
-- Breaks a lock: ends the leases of its holders, and hands the lock to the next waiter.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
-- ARGV  1 the prefix of wake channels  2 the event channel
--       3 the event, up to the time  4 the event, after the time  5 the fence of the grant to end; empty for any
-- Reply 1: broken; 0: there is no lease (no such key, not a string, or without a ttl), or no lease with that fence
--
-- Guarantees that only strings with a ttl are deleted. The next grant has a higher fence, like every grant.

local wake_prefix, event_channel, event_start, event_end, only_fence = unpack(ARGV)

if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('PTTL', KEYS[1]) < 0 then return 0 end

-- Returns whether a grant with this fence holds the lock, alone or in a group.
local function is_held_under(fence)
  if not group_slots(redis.call('GET', KEYS[1])) then return redis.pcall('GET', KEYS[2]) == fence end
  local grants = redis.call('HGETALL', KEYS[5])
  for index = 2, #grants, 2 do
    if grants[index] == fence then return true end
  end
  return false
end

if only_fence ~= '' and not is_held_under(only_fence) then return 0 end
redis.call('DEL', KEYS[1], KEYS[4], KEYS[5])
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('PUBLISH', event_channel, event_start .. now .. event_end)
if redis.call('EXISTS', KEYS[3]) == 1 then open_queue(wake_prefix, '').hand_over() end
return 1
