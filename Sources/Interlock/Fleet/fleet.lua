-- A sidecar's sign of life, or its leave.
--
-- KEYS  1 fleet (zset), and on a cluster one that never exists: a slot that is on its way has all of a script's keys, or runs none of it
-- ARGV  1 the sidecar's ID  2 for how many ms it counts as alive (0: it leaves)
--       3 the event channel  4 the event, up to its type  5 the event, from its time on, up to the time's value
--       6 what the key of a sidecar's own hash begins with; empty: what the others run with is not asked
-- Reply {time in ms, {the live sidecars' IDs}, {what each runs with, if asked: its digest; empty: it has published none}}
--
-- Guarantees that a sidecar that stops reporting leaves the list after its lifetime, even if the clock was set back.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lifetime = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
-- After a clock step back, no sidecar counts as alive for longer than a lifetime.
local latest = string.format('%.0f', now + lifetime)
for _, id in ipairs(lifetime > 0 and redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. latest, '+inf') or {}) do
  redis.call('ZADD', KEYS[1], latest, id)
end
local changed
if lifetime > 0 then
  changed = redis.call('ZADD', KEYS[1], now + lifetime, ARGV[1]) == 1 and 'fleet.joined'
else
  changed = redis.call('ZREM', KEYS[1], ARGV[1]) == 1 and 'fleet.left'
end
if changed then
  redis.call('PUBLISH', ARGV[3], ARGV[4] .. changed .. ARGV[5] .. string.format('%.0f', now) .. '}')
end
local members = redis.call('ZRANGE', KEYS[1], 0, -1)
local digests = {}
if ARGV[6] ~= '' then
  for place, id in ipairs(members) do
    digests[place] = redis.call('HGET', ARGV[6] .. id, 'configuration') or ''
  end
end
return {now, members, digests}
