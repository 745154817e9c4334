-- needs: breaker, breaker-votes
-- Changes a breaker's state.
--
-- KEYS and ARGV: see `breaker.lua`

-- Enters the state `to` under a new generation. `ends` is the end of the state in ms; 0 if it does not end at a fixed
-- time. `extra` holds more fields to write.
local function change(to, cause, ends, extra)
  -- The generation is the time in microseconds, or a random step above the last generation if the clock is behind it.
  -- Redis thus never issues a generation twice, even if it has lost its data in between.
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
  drop_votes(false)
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', integer(call.history), '*', 'from', from, 'to', to, 'cause', cause,
    'by', call.by, 'reason', hash.reason, 'generation', integer(generation), 'until', integer(ends),
    'failure_rate', hash.failure_rate, 'slow_rate', hash.slow_rate, 'calls', hash.calls)
  announce()
end
