-- Checks whether grants still hold their locks, and for how long.
--
-- KEYS  for each grant: 1 lock  2 fence  3 holders  4 grants
-- ARGV  for each grant: 1 its token  2 its fence
-- Reply for each grant: the ms left, -1 if it never expires, -2 if it no longer holds the lock
--
-- Guarantees that nothing changes. A lock whose keys other software uses for another purpose counts as not held.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function remaining(lock, fence, holders, grants, token, only_fence)
  local holder = redis.call('GET', lock)
  if not holder then return -2 end
  if holder == token then
    return (redis.call('GET', fence) or only_fence) == only_fence and redis.call('PTTL', lock) or -2
  end
  -- A group that is not in its own set is stale.
  local ends = redis.call('ZSCORE', holders, holder) and redis.call('ZSCORE', holders, token)
  if not ends or redis.call('HGET', grants, token) ~= only_fence then return -2 end
  return ends - now > 0 and ends - now or -2
end

local found = {}
for i = 1, #KEYS - 3, 4 do
  local token, fence = ARGV[(i + 1) / 2], ARGV[(i + 3) / 2]
  local is_read, result = pcall(remaining, KEYS[i], KEYS[i + 1], KEYS[i + 2], KEYS[i + 3], token, fence)
  found[#found + 1] = is_read and result or -2
end
return found
