-- Every decision on one service's breaker, under its generation number: of two sidecars that see the same, one decides.
--
-- KEYS  1 breaker (hash)  2 history (stream)  3 window (hash of time slices)  4 trials (zset of permits under way)
-- ARGV  1 the call as a JSON object. Always: op, service, by, origin, db, channel, history, random (0…1);
--         open_min and open_max (ms) with what may open it. "expect" is the generation that the caller acts on; on another one nothing is changed.
--         sync    [known: a snapshot's fields]    reads; a hash that is lost or older is restored from what is known
--         report  expect calls failures slow window minimum failure_rate slow_rate    adds sums, trips when due
--                 [retry_after ms: what the upstream asked for, the least open time]
--         trip    expect cause                    opens
--         half    expect                          half-opens when the open time is over
--         trial   id permits lifetime             asks for one of the half-open permits
--         outcome expect id outcome permits [retry_after]   of a trial: "ok" "error" "ignore"
--         close   expect cause                    closes from half-open
--         force   state cause                     "open" "closed" "disabled" "auto"
-- Reply {result, time in ms, {field, value, …}}; result is 1 when the call did or got what it asked for, else 0
--
-- Guarantees that the generation strictly rises with every change of state, also after a wipe; that the hash is updated
-- in place; that a trial permit that is never reported frees its place; and that every change is in the history and on
-- the event channel.

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
    .. ',"state":' .. text('state') .. ',"cause":' .. text('cause') .. ',"since_ms":' .. integer(hash.since)
    .. ',"until_ms":' .. integer(hash['until']) .. ',"generation":' .. integer(hash.generation)
    .. ',"trips":' .. integer(hash.trips) .. ',"failure_rate":' .. (hash.failure_rate or '0')
    .. ',"slow_rate":' .. (hash.slow_rate or '0') .. ',"calls":' .. integer(hash.calls)
    .. ',"by":' .. text('by') .. ',"forced":' .. text('forced') .. '}')
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

local function change(to, cause, ends, extra)
  generation = math.max(generation + 1, time[1] * 1000000 + time[2])
  local from = state
  state = to
  local fields = extra or {}
  fields.state, fields.cause, fields.by = to, cause, call.by
  fields.since, fields['until'], fields.generation = integer(now), integer(ends), integer(generation)
  fields.successes = '0'
  if to == 'open' then fields.trips = integer((hash.trips or 0) + 1) end
  if to == 'closed' then fields.streak, fields.failure_rate, fields.slow_rate, fields.calls = '0', '0', '0', '0' end
  fields.forced = fields.forced or ''
  fields.trips = fields.trips or hash.trips or '0'
  fields.failure_rate = fields.failure_rate or hash.failure_rate or '0'
  fields.slow_rate = fields.slow_rate or hash.slow_rate or '0'
  fields.calls = fields.calls or hash.calls or '0'
  write(fields)
  redis.call('DEL', KEYS[3], KEYS[4])
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', integer(call.history), '*', 'from', from, 'to', to, 'cause', cause,
    'by', call.by, 'generation', integer(generation), 'until', integer(ends), 'failure_rate', hash.failure_rate,
    'slow_rate', hash.slow_rate, 'calls', hash.calls)
  announce()
end

local function open(cause, extra)
  local streak = tonumber(hash.streak or 0)
  local pause = math.min(call.open_max, call.open_min * 2 ^ math.min(streak, 30))
  if cause == 'limit' then
    pause = call.open_min + (call.open_max - call.open_min) * call.random
  else
    pause = math.min(call.open_max, pause * (1 + call.random / 10))
    if call.retry_after then pause = math.max(pause, call.retry_after) end
  end
  extra = extra or {}
  -- A pause for the limit says nothing of the service's health.
  extra.streak = integer(cause == 'limit' and streak or streak + 1)
  change('open', cause, now + math.floor(pause), extra)
end

local expected = call.expect == nil or tonumber(call.expect) == generation
local forced = (hash.forced or '') ~= ''

if call.op == 'sync' then
  if call.known and tonumber(call.known.generation) > generation then
    write(call.known)
    announce()
    return reply(1)
  end
  return reply(0)
end

if call.op == 'force' then
  if call.state == 'open' then
    change('open', call.cause, 0, {forced = 'open'})
  elseif call.state == 'auto' then
    change('closed', call.cause, 0)
  else
    change('closed', call.cause, 0, {forced = call.state})
  end
  return reply(1)
end

-- A disabled breaker goes on counting, so that people see what it would do.
if not expected or (forced and not (call.op == 'report' and hash.forced == 'disabled')) then return reply(0) end

if call.op == 'trip' then
  if state == 'open' then return reply(0) end
  open(call.cause)
  return reply(1)
end

if call.op == 'half' then
  if state ~= 'open' or tonumber(hash['until']) > now then return reply(0) end
  change('half_open', hash.cause, 0)
  return reply(1)
end

if call.op == 'close' then
  if state ~= 'half_open' then return reply(0) end
  change('closed', call.cause, 0)
  return reply(1)
end

if call.op == 'trial' then
  if state == 'open' and tonumber(hash['until']) <= now then change('half_open', hash.cause, 0) end
  if state == 'closed' then return reply(1) end
  if state ~= 'half_open' then return reply(0) end
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
  if redis.call('ZCARD', KEYS[4]) + tonumber(hash.successes or 0) >= call.permits then return reply(0) end
  redis.call('ZADD', KEYS[4], now + call.lifetime, call.id)
  redis.call('PEXPIRE', KEYS[4], call.lifetime)
  return reply(1)
end

if call.op == 'outcome' then
  if state ~= 'half_open' or redis.call('ZREM', KEYS[4], call.id) == 0 then return reply(0) end
  if call.outcome == 'error' then
    open('failures')
  elseif call.outcome == 'ok' then
    local successes = tonumber(hash.successes or 0) + 1
    if successes >= call.permits then
      change('closed', 'trials', 0)
    else
      write({successes = integer(successes)})
    end
  end
  return reply(1)
end

if call.op == 'report' then
  if state ~= 'closed' then return reply(0) end
  local width = math.max(1, math.floor(call.window / 10))
  local current = math.floor(now / width)
  local calls, failures, slow = call.calls, call.failures, call.slow
  local mine = {call.calls, call.failures, call.slow}
  local slices = redis.call('HGETALL', KEYS[3])
  for i = 1, #slices, 2 do
    local slice = tonumber(slices[i])
    if slice <= current - 10 then
      redis.call('HDEL', KEYS[3], slices[i])
    else
      local c, f, s = string.match(slices[i + 1], '(%d+):(%d+):(%d+)')
      calls, failures, slow = calls + c, failures + f, slow + s
      if slice == current then mine = {mine[1] + c, mine[2] + f, mine[3] + s} end
    end
  end
  redis.call('HSET', KEYS[3], integer(current), integer(mine[1]) .. ':' .. integer(mine[2]) .. ':' .. integer(mine[3]))
  redis.call('PEXPIRE', KEYS[3], call.window + width)
  local rates = {failure_rate = '0', slow_rate = '0', calls = integer(calls)}
  if calls > 0 then
    rates.failure_rate = string.format('%.3f', failures / calls)
    rates.slow_rate = string.format('%.3f', slow / calls)
  end
  write(rates)
  if calls >= call.minimum and not forced then
    if failures / calls >= call.failure_rate then
      open('failures')
      return reply(1)
    elseif call.slow_rate and slow / calls >= call.slow_rate then
      open('slow')
      return reply(1)
    end
  end
  return reply(0)
end

return redis.error_reply('ERR unknown operation ' .. tostring(call.op))
