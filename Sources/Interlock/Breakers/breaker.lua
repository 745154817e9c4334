-- Every decision on one service's breaker, under its generation number: of two sidecars that see the same, one decides.
--
-- KEYS  1 breaker (hash)  2 history (stream)  3 window (hash of slices, and of which generation they are; one for each kind and
--       length of window: sidecars may differ while a fleet is reloaded)  4 trials (zset of permits under way)
--       6 the window of sidecars of the version before
--       5 votes (zset of sidecars that find the service bad, until when)
-- ARGV  1 the call as a JSON object. Always: op, service, by, origin, db, channel, history, random (0…1);
--         open_min and open_max (ms) with what may open it. "expect" is the generation that the caller acts on; on another one nothing is changed.
--         sync    configuration [declares] [known: a snapshot's fields]    reads; a hash that is lost or older is restored
--                 from what is known; remembers the configuration's digest when there is none, or when it is declared
--         report  expect calls failures slow trailing (failures after the last success) slices (of a window) minimum failure_rate
--                 slow_rate consecutive, and window (ms) or window_calls    adds sums; with "judge" trips when due
--                 [retry_after ms: what the upstream asked for, the least open time]
--         vote    expect cause lapse (ms) reporters [pause]    opens when so many sidecars have found the service bad
--         trip    expect cause [pause]            opens
--         half    expect                          half-opens when the open time is over
--         trial   at_least id permits lifetime    asks for one of the half-open permits; of a hash that is older than the
--                 generation at_least there is none
--         outcome expect id outcome permits [retry_after] [pause]   of a trial: "ok" "error" "ignore"
--         close   expect cause                    closes what the limit opened; with cause "auto" whatever is open
--         down    at_least reason lapse (ms) [quorum] [seconds]    an outage, said again at least that often; with quorum so many
--                 must say it, and who only seconds it is not the first; a hash that is older than the generation at_least, one that was lost, is restored first
--         up      expect [trial] [quorum]         the end of an outage
--         force   at_least state cause reason [for ms]    "open" "closed" "disabled" "auto"; its generation is later than
--                 at_least
--         pause (ms) is what the upstream asked for: the cause is then "retry_after", and longest (ms) its most
--         Each call may pass what its sidecar knows about the ends: "until" and "forced_until" as stored in the hash;
--         "until_to" and "forced_until_to", the corrected values if Redis' clock has jumped since they were written; "over"
--         and "forced_over" if the end has passed by the sidecar's clock
-- Reply {result, time in ms, {field, value, …}}; result is 1 when the call did or got what it asked for, else 0
--
-- Guarantees that the generation strictly rises with every change of state, also after a wipe; that the hash is updated
-- in place; that a trial permit that is never reported frees its place; that an outage is over when nobody says any more
-- that it is not; that a state ends when a sidecar has measured its time, and not because Redis' clock jumps; that the end is never
-- further away than its whole time; and that every change is in the history and on the event channel.

local call = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- What a window of calls holds goes by calls; without any it is dropped a day later.
local IDLE_WINDOW = 86400000

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

-- Votes

local function isOutageVote(member) return string.sub(member, 1, 7) == 'outage:' end

local function cast(cause, lapse)
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now)
  redis.call('ZADD', KEYS[5], now + lapse, cause .. ':' .. call.origin)
  if redis.call('PTTL', KEYS[5]) < lapse then redis.call('PEXPIRE', KEYS[5], lapse) end
end

-- How many different sidecars say that there is an outage, or that calls fail.
local function voters(ofOutage)
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now)
  local seen, count = {}, 0
  for _, member in ipairs(redis.call('ZRANGE', KEYS[5], 0, -1)) do
    local sidecar = string.match(member, ':(.*)$')
    if isOutageVote(member) == ofOutage and not seen[sidecar] then
      seen[sidecar] = true
      count = count + 1
    end
  end
  return count
end

local function dropVotes(ofOutage)
  for _, member in ipairs(redis.call('ZRANGE', KEYS[5], 0, -1)) do
    if isOutageVote(member) == ofOutage then redis.call('ZREM', KEYS[5], member) end
  end
end

-- Changes

local function change(to, cause, ends, extra)
  -- Beyond the time only when the clock had been ahead: then two lives of a Redis that lost its data do not mint the same one.
  generation = math.max(generation + 1 + math.floor(call.random * 1000), time[1] * 1000000 + time[2])
  local from = state
  state = to
  local fields = extra or {}
  fields.state, fields.cause, fields.by = to, cause, call.by
  fields.since, fields['until'], fields.generation = integer(now), integer(ends), integer(generation)
  fields.successes, fields.consecutive = '0', '0'
  if to == 'open' and from ~= 'open' then fields.trips = integer((hash.trips or 0) + 1) end
  if to == 'closed' then fields.streak, fields.failure_rate, fields.slow_rate, fields.calls = '0', '0', '0', '0' end
  fields.forced = fields.forced or ''
  fields.forced_until = fields.forced_until or '0'
  fields.reason = fields.reason or ''
  fields.trips = fields.trips or hash.trips or '0'
  fields.streak = fields.streak or hash.streak or '0'
  fields.failure_rate = fields.failure_rate or hash.failure_rate or '0'
  fields.slow_rate = fields.slow_rate or hash.slow_rate or '0'
  fields.calls = fields.calls or hash.calls or '0'
  write(fields)
  redis.call('DEL', KEYS[3], KEYS[4], KEYS[6])
  dropVotes(false)
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', integer(call.history), '*', 'from', from, 'to', to, 'cause', cause,
    'by', call.by, 'reason', hash.reason, 'generation', integer(generation), 'until', integer(ends),
    'failure_rate', hash.failure_rate, 'slow_rate', hash.slow_rate, 'calls', hash.calls)
  announce()
end

local function open(cause)
  local streak = tonumber(hash.streak or 0)
  local pause
  if call.pause then
    cause = 'retry_after'
    pause = math.min(call.longest, call.pause * (1 + call.random / 10))
  elseif cause == 'limit' then
    pause = call.open_min + (call.open_max - call.open_min) * call.random
  else
    pause = math.min(call.open_max, call.open_min * 2 ^ math.min(streak, 30))
    pause = math.min(call.open_max, pause * (1 + call.random / 10))
    if call.retry_after then pause = math.max(pause, call.retry_after) end
    -- A pause that was asked for, or for the limit, says nothing of how ill the service is.
    streak = streak + 1
  end
  change('open', cause, now + math.ceil(pause), {streak = integer(streak)})
end

-- The window

local function numbers(slice) return string.match(slice, '(%d+):(%d+):(%d+)') end

-- Adds the call's sums to the slice of the present time; slices that are no longer in the window go.
local function addByTime(slices)
  local width = math.max(1, math.floor(call.window / call.slices))
  local current = math.floor(now / width)
  local mine = slices[current] or {0, 0, 0}
  slices[current] = {mine[1] + call.calls, mine[2] + call.failures, mine[3] + call.slow}
  return current, call.slices, call.window + width
end

-- Fills slices with the call's sums, evenly mixed. The last one is being filled; behind it stand as many as a window is.
local function addByCalls(slices)
  local width = math.ceil(call.window_calls / call.slices)
  local current = 0
  for number in pairs(slices) do current = math.max(current, number) end
  local left = {call.calls, call.failures, call.slow}
  local most = width * (call.slices + 1)
  if left[1] > most then
    local share = most / left[1]
    left = {most, math.floor(left[2] * share + 0.5), math.floor(left[3] * share + 0.5)}
  end
  while left[1] > 0 do
    local slice = slices[current] or {0, 0, 0}
    if slice[1] >= width then
      current = current + 1
      slice = {0, 0, 0}
    end
    local share = math.min(1, (width - slice[1]) / left[1])
    slices[current] = {slice[1], slice[2], slice[3]}
    for i = 1, 3 do
      local part = i == 1 and math.min(left[1], width - slice[1]) or math.floor(left[i] * share + 0.5)
      slices[current][i] = slice[i] + part
      left[i] = left[i] - part
    end
  end
  return current, call.slices + 1, IDLE_WINDOW
end

local function add()
  local slices, of = {}, nil
  local stored = redis.call('HGETALL', KEYS[3])
  for i = 1, #stored, 2 do
    if stored[i] == 'generation' then
      of = stored[i + 1]
    else
      local c, f, s = numbers(stored[i + 1])
      slices[tonumber(stored[i])] = {tonumber(c), tonumber(f), tonumber(s)}
    end
  end
  -- What another kind of window has changed since emptied only its own.
  if of ~= integer(generation) then
    redis.call('DEL', KEYS[3])
    slices = {}
  end
  local current, kept, lifetime
  if call.window then current, kept, lifetime = addByTime(slices) else current, kept, lifetime = addByCalls(slices) end
  local sums, written, dropped = {0, 0, 0}, {}, {}
  for number, slice in pairs(slices) do
    -- One of the future was counted under another length.
    if number <= current - kept or number > current then
      dropped[#dropped + 1] = integer(number)
    else
      for i = 1, 3 do sums[i] = sums[i] + slice[i] end
      written[#written + 1] = integer(number)
      written[#written + 1] = integer(slice[1]) .. ':' .. integer(slice[2]) .. ':' .. integer(slice[3])
    end
  end
  if #dropped > 0 then redis.call('HDEL', KEYS[3], unpack(dropped)) end
  redis.call('HSET', KEYS[3], 'generation', integer(generation), unpack(written))
  redis.call('PEXPIRE', KEYS[3], lifetime)
  return sums[1], sums[2], sums[3]
end

-- The call

if call.op == 'sync' and call.known and tonumber(call.known.generation) > generation then
  write(call.known)
  state, generation = hash.state, tonumber(hash.generation)
  announce()
end

-- A sidecar that knows the end as it stands here has measured when it comes.
local function is_over(name, over)
  return call[over] and hash[name] and (hash[name] == call[name] or hash[name] == call[name .. '_to'])
end
local is_due = is_over('until', 'over') or tonumber(hash['until'] or 0) == 0
local is_forced_due = is_over('forced_until', 'forced_over')
local corrected = {}
for _, name in ipairs({'until', 'forced_until'}) do
  if call[name .. '_to'] and call[name] == hash[name] then corrected[name] = call[name .. '_to'] end
end
if next(corrected) then write(corrected) end

-- Of a clock that was set back: what began in the future begins now, and no trial stands until that future is over.
local ahead = tonumber(hash.since or 0) - now
if ahead > 0 then
  local moved = {since = integer(now)}
  for _, name in ipairs({'until', 'forced_until'}) do
    local instant = tonumber(hash[name] or 0)
    if instant > 0 and not corrected[name] then
      instant = instant - ahead
      -- An outage may have begun long ago, so it lasts at most the time that one failed probe adds.
      if name == 'until' and hash.cause == 'outage' and hash.lapse then instant = math.min(instant, now + hash.lapse) end
      moved[name] = integer(instant)
    end
  end
  write(moved)
  redis.call('DEL', KEYS[4], KEYS[5])
end

if is_forced_due and call.op ~= 'force' then change('closed', 'auto', 0) end

if call.op == 'sync' then
  if call.configuration and call.configuration ~= hash.configuration and (call.declares or not hash.configuration) then
    write({configuration = call.configuration})
  end
  return reply(1)
end

if call.op == 'force' then
  generation = math.max(generation, tonumber(call.at_least) or 0)
  local until_ = call['for'] and integer(now + call['for']) or '0'
  if call.state == 'open' then
    change('open', call.cause, 0, {forced = 'open', forced_until = until_, reason = call.reason})
  elseif call.state == 'auto' then
    change('closed', call.cause, 0, {reason = call.reason})
  else
    change('closed', call.cause, 0, {forced = call.state, forced_until = until_, reason = call.reason})
  end
  return reply(1)
end

-- Votes are a sidecar's own, whatever the others do.
if call.quorum then
  if call.seconds and voters(true) == 0 then return reply(0) end
  if call.op == 'down' then cast('outage', call.lapse) else redis.call('ZREM', KEYS[5], 'outage:' .. call.origin) end
elseif call.op == 'up' then
  -- One probes for all: what another suspected before is settled.
  dropVotes(true)
end

local expected = call.expect == nil or tonumber(call.expect) == generation
if call.op == 'down' and generation < (tonumber(call.at_least) or 0) then expected = false end
local forced = (hash.forced or '') ~= ''

-- A disabled breaker goes on counting, so that people see what it would do.
if not expected or (forced and not (call.op == 'report' and hash.forced == 'disabled')) then return reply(0) end

if call.op == 'trip' then
  if state == 'open' then return reply(0) end
  open(call.cause)
  return reply(1)
end

if call.op == 'vote' then
  if state ~= 'closed' then return reply(0) end
  cast(call.cause, call.lapse)
  if voters(false) < call.reporters then return reply(0) end
  open(call.cause)
  return reply(1)
end

if call.op == 'down' then
  if call.quorum and voters(true) < call.quorum then return reply(0) end
  local lapses = now + call.lapse
  -- An open time that stands already is not made shorter.
  if state == 'open' then lapses = math.max(lapses, tonumber(hash['until'])) end
  if state == 'open' and hash.cause == 'outage' then
    write({['until'] = integer(lapses), reason = call.reason, lapse = integer(call.lapse)})
  else
    change('open', 'outage', lapses, {reason = call.reason, lapse = integer(call.lapse)})
  end
  return reply(1)
end

if call.op == 'up' then
  if state == 'closed' or hash.cause ~= 'outage' then return reply(0) end
  if call.quorum and voters(true) >= call.quorum then return reply(0) end
  if not call.trial then
    change('closed', 'probe', 0)
  elseif state == 'open' then
    change('half_open', 'probe', 0)
  end
  return reply(1)
end

if call.op == 'half' then
  if state ~= 'open' or not is_due then return reply(0) end
  change('half_open', hash.cause, 0, {reason = hash.reason})
  return reply(1)
end

if call.op == 'close' then
  local isOver = state == 'half_open' or (state == 'open' and is_due)
  if state == 'closed' or not (call.cause == 'auto' or (isOver and hash.cause == call.cause)) then return reply(0) end
  change('closed', call.cause, 0)
  return reply(1)
end

if call.op == 'trial' then
  if generation < tonumber(call.at_least) then return reply(0) end
  if state == 'open' and is_due then change('half_open', hash.cause, 0, {reason = hash.reason}) end
  if state == 'closed' then return reply(1) end
  if state ~= 'half_open' then return reply(0) end
  local successes = tonumber(hash.successes or 0)
  -- More were asked for when they were made: a trial more would never be given.
  if successes >= call.permits then
    change('closed', 'trials', 0)
    return reply(1)
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
  -- After a clock step back, no permit lasts longer than its lifetime.
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '(' .. integer(now + call.lifetime), '+inf')
  if redis.call('ZCARD', KEYS[4]) + successes >= call.permits then return reply(0) end
  redis.call('ZADD', KEYS[4], now + call.lifetime, call.id)
  redis.call('PEXPIRE', KEYS[4], call.lifetime)
  return reply(1)
end

if call.op == 'outcome' then
  if state ~= 'half_open' or redis.call('ZREM', KEYS[4], call.id) == 0 then return reply(0) end
  if call.outcome == 'error' or call.pause then
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
  local calls, failures, slow = add()
  local run = call.trailing
  if call.failures == call.calls then run = run + tonumber(hash.consecutive or 0) end
  write({
    failure_rate = string.format('%.3f', failures / calls), slow_rate = string.format('%.3f', slow / calls),
    calls = integer(calls), consecutive = integer(run)})
  if not call.judge or forced then return reply(0) end
  local cause
  if calls >= call.minimum and failures / calls >= call.failure_rate then
    cause = 'failures'
  elseif calls >= call.minimum and call.slow_rate and slow / calls >= call.slow_rate then
    cause = 'slow'
  elseif call.consecutive and run >= call.consecutive then
    cause = 'consecutive'
  end
  if not cause then return reply(0) end
  open(cause)
  return reply(1)
end

return redis.error_reply('ERR unknown operation ' .. tostring(call.op))
