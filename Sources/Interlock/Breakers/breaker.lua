-- The start of every breaker script: reads the call and the breaker's state, and defines how to write and announce it.
--
-- KEYS  1 breaker (hash)  2 history (stream)
--       3 window (hash of slices and of their generation; one for each kind and length of window, because sidecars may
--         differ while a fleet is reloaded)
--       4 trials (zset of permits in use)  5 votes (zset of the sidecars that voted, with the ends of their votes)
--       6 the window of sidecars of the previous version
-- ARGV  1 the call as a JSON object. Every call has: service, by, origin, db, channel, history, random (0…1).
--         "expect" is the generation that the caller acts on; if the breaker has another one, nothing changes.
--         A call may pass the ends that its sidecar knows: see `breaker-ends.lua`
-- Reply {result, time in ms, {field, value, …}}; result is 1 if the call succeeded, otherwise 0
--
-- Guarantees that the generation increases with every change of state, even after a wipe, so that only one of two
-- sidecars that act on the same generation decides; and that every change of state is in the history and on the event
-- channel.

local call = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local hash = {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do hash[flat[i]] = flat[i + 1] end
local state, generation = hash.state or 'closed', tonumber(hash.generation or 0)

local function integer(value) return string.format('%.0f', tonumber(value) or 0) end

local function reply(result)
  return {result, now, redis.call('HGETALL', KEYS[1])}
end

local function announce()
  local function text(name) return cjson.encode(hash[name] or '') end
  redis.call('PUBLISH', call.channel,
    '{"v":1,"type":"breaker","origin":' .. cjson.encode(call.origin) .. ',"db":' .. integer(call.db)
    .. ',"at_ms":' .. integer(now) .. ',"service":' .. cjson.encode(call.service)
    .. ',"state":' .. text('state') .. ',"cause":' .. text('cause') .. ',"reason":' .. text('reason')
    .. ',"since_ms":' .. integer(hash.since) .. ',"until_ms":' .. integer(hash['until'])
    .. ',"generation":' .. integer(hash.generation) .. ',"trips":' .. integer(hash.trips)
    .. ',"streak":' .. integer(hash.streak) .. ',"failure_rate":' .. (hash.failure_rate or '0')
    .. ',"slow_rate":' .. (hash.slow_rate or '0') .. ',"calls":' .. integer(hash.calls)
    .. ',"by":' .. text('by') .. ',"forced":' .. text('forced')
    .. ',"forced_until_ms":' .. integer(hash.forced_until) .. '}')
end

local function write(fields)
  local arguments = {}
  for name, value in pairs(fields) do
    hash[name] = value
    arguments[#arguments + 1] = name
    arguments[#arguments + 1] = value
  end
  redis.call('HSET', KEYS[1], unpack(arguments))
end

local function is_expected() return call.expect == nil or tonumber(call.expect) == generation end

local function is_forced() return (hash.forced or '') ~= '' end
