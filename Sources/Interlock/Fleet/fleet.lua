-- Records that a sidecar is alive or that it leaves, and lists the live sidecars.
--
-- KEYS  1 fleet (zset); on a cluster also 2, which never exists: see `LockKeys`
-- ARGV  1 the sidecar's ID  2 the ms for which it counts as alive (0 to leave)
--       3 the event channel  4 the event, up to its type  5 the event, after its type, up to the time's value
--       6 the prefix of the sidecars' own hashes; empty if the digests are not requested
-- Reply {time in ms, {the live sidecars' IDs}, {if asked: each one's configuration digest; empty: not published}}
--
-- Guarantees that a sidecar without heartbeats leaves the list after its lifetime, even if the clock was set back.

local sidecar, lifetime, event_channel, event_start, event_end, hash_prefix = unpack(ARGV)
lifetime = tonumber(lifetime)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
-- After a clock step back, no sidecar counts as alive for longer than a lifetime.
local latest = string.format('%.0f', now + lifetime)
for _, id in ipairs(lifetime > 0 and redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. latest, '+inf') or {}) do
  redis.call('ZADD', KEYS[1], latest, id)
end
local changed
if lifetime > 0 then
  changed = redis.call('ZADD', KEYS[1], now + lifetime, sidecar) == 1 and 'fleet.joined'
else
  changed = redis.call('ZREM', KEYS[1], sidecar) == 1 and 'fleet.left'
end
if changed then
  redis.call('PUBLISH', event_channel, event_start .. changed .. event_end .. string.format('%.0f', now) .. '}')
end
local members = redis.call('ZRANGE', KEYS[1], 0, -1)
local digests = {}
if hash_prefix ~= '' then
  for index, id in ipairs(members) do
    digests[index] = redis.call('HGET', hash_prefix .. id, 'configuration') or ''
  end
end
return {now, members, digests}
