-- What the scripts of limits share: this text stands before each of them.
--
-- Times are whole microseconds of Redis' clock. Functions are made anew at every call of a script, and fixed windows, which
-- need none of these, feel each: what only the other algorithms need is made by `open_cells` and `open_log`.

-- Calls a command for very many arguments: Lua's stack holds some 8,000.
local function call_in_parts(command, key, arguments, use)
  local most = 4000
  for first = 1, #arguments, most do
    local last = math.min(first + most - 1, #arguments)
    local reply
    if key then
      reply = redis.call(command, key, unpack(arguments, first, last))
    else
      reply = redis.call(command, unpack(arguments, first, last))
    end
    if use then use(first, reply) end
  end
end

-- The generic cell rate algorithm (ITU-T I.371): `limit` units in each `window`, as the theoretical arrival time of the
-- next one, TAT. `value` is `TAT`, or `TAT:n` for n/limit of a microsecond more: so nothing is ever rounded. nil when it is
-- neither. Exact while a unit's time, window/limit, times the most units is below 2^52.
--
-- More than `capacity` is never owed: a TAT far beyond that was written before the clock was set back, or under a lower limit,
-- and is cut. What other sidecars owe whose burst is larger, while a fleet is reloaded, is left alone. nil: as it stands.
local function open_cells(limit, window, value, time, capacity)
  local step = math.floor(window / limit)
  local rest = window - step * limit
  local tat, part = time, 0
  if value then
    local whole, numerator = string.match(value, '^(%d+):?(%d*)$')
    if not whole then return nil end
    tat, part = tonumber(whole), tonumber(numerator) or 0
    -- It was written under another limit, whose fractions are not these: never too early.
    if part >= limit then tat, part = tat + 1, 0 end
    if tat < time then tat, part = time, 0 end
  end
  local cells = {}

  -- The time of `units`, which may be negative: whole microseconds, and how many limit-ths of one.
  local function span(units)
    local parts = units * rest
    local whole = math.floor(parts / limit)
    return units * step + whole, parts - whole * limit
  end

  if capacity and tat > time then
    local whole, parts = span(capacity)
    if tat > time + 2 * math.max(whole, window) then
      tat, part = time + whole, parts
      cells.is_cut = true
    end
  end

  -- TAT when `units` more are taken.
  local function after(units)
    local whole, parts = span(units)
    whole, parts = tat + whole, part + parts
    if parts >= limit then return whole + 1, parts - limit end
    return whole, parts
  end

  -- How many units are taken, begun ones included; above `capacity` no matter how many.
  function cells.taken(capacity)
    local whole = tat - time
    local units = math.ceil((whole + part / limit) / (window / limit))
    -- The quotient was rounded: it may be one off.
    if units > capacity + 1 then return capacity + 1 end
    local exact, parts = span(units)
    if exact < whole or (exact == whole and parts < part) then return math.min(units, capacity) + 1 end
    exact, parts = span(units - 1)
    if units > 0 and (exact > whole or (exact == whole and parts >= part)) then return units - 1 end
    return units
  end

  -- In how many microseconds, rounded up, no more than `units` will be taken, if `more` are taken now.
  function cells.wait(more, units)
    local whole, parts = after(more)
    local less, fewer = span(units)
    return math.max(0, whole - less - time + (parts > fewer and 1 or 0))
  end

  local function keep(key, whole, parts)
    local left = whole - time + (parts > 0 and 1 or 0)
    if left <= 0 then
      redis.call('DEL', key)
      return
    end
    local text = parts > 0 and string.format('%.0f:%.0f', whole, parts) or string.format('%.0f', whole)
    redis.call('SET', key, text, 'PX', math.ceil(left / 1000))
  end

  -- Keeps it with `more` units taken.
  function cells.write(key, more) keep(key, after(more)) end

  -- Takes `units` back that come back by themselves in `left` microseconds: what has come back already is not credited again.
  function cells.give_back(key, units, left)
    local whole, parts = after(-units)
    if whole < tat - left or (whole == tat - left and parts < part) then whole, parts = tat - left, part end
    keep(key, whole, parts)
  end

  return cells
end

-- A counter for each whole window of Redis' clock, `BEGIN:COUNT` with BEGIN in ms of the Unix epoch. `value` is what stands there; nil
-- when it is none. What was counted before the clock was set back counts as of now.
local function open_aligned(window, value, time)
  local now = math.floor(time / 1000)
  local first = now - now % window
  local aligned = {count = 0}
  if value then
    local at, count = string.match(value, '^(%d+):(%d+)$')
    if not at then return nil end
    if tonumber(at) >= first then aligned.count = tonumber(count) end
  end

  -- In how many microseconds no more than `units` will be taken, if `more` are taken now.
  function aligned.wait(more, units)
    return aligned.count + more > units and (first + window) * 1000 - time or 0
  end

  -- Keeps it with `more` taken, which may be less than nothing.
  function aligned.write(key, more)
    redis.call('SET', key, string.format('%.0f:%.0f', first, aligned.count + more), 'PX', first + window - now)
  end

  return aligned
end

-- The log of a sliding window, a hash: entries `time:cost` under rising numbers from `head` to `tail`, their `total`, and
-- the time of the `last`. An entry counts at every time up to `window` after its own, this moment included. Nothing is
-- written before `write`. O(entries that count no more), amortised O(1) for each grant.
local function open_log(key, window, time)
  local state = redis.call('HMGET', key, 'head', 'tail', 'total', 'last')
  local head, tail = tonumber(state[1]) or 1, tonumber(state[2]) or 0
  local total, last = tonumber(state[3]) or 0, tonumber(state[4]) or 0
  -- Redis' clock may have been set back a little, and the log stays in order; or by more than that: then what is of the future
  -- is of now, and the whole log is written anew.
  local is_set_back = last > time + 1000000
  if is_set_back then last = time end
  local now = math.max(time, last)
  -- Of the entries from `head` on that were read: their times, and the sum of the costs up to each.
  local times, sums, dropped, part = {}, {}, 0, 16
  local log = {now = now}

  local function read_more()
    local fields = {}
    for number = head + #times, math.min(head + #times + part - 1, tail) do fields[#fields + 1] = number end
    if #fields == 0 then return false end
    part = math.min(4 * part, 1024)
    local entries = redis.call('HMGET', key, unpack(fields))
    for place = 1, #fields do
      local at, cost = string.match(entries[place] or '', '^(%d+):(%d+)$')
      at = tonumber(at) or 0
      sums[#times + 1] = (sums[#times] or 0) + (tonumber(cost) or 0)
      times[#times + 1] = is_set_back and math.min(at, time) or at
    end
    return true
  end

  while (dropped < #times or read_more()) and times[dropped + 1] < now - window do dropped = dropped + 1 end
  local gone = sums[dropped] or 0
  total = total - gone
  log.total = total

  -- In how many microseconds `units` of what counts now will count no more; what is granted now included.
  function log.wait(units)
    if units <= 0 then return 0 end
    while (sums[#sums] or 0) - gone < units do
      if not read_more() then return now + window + 1 - time end
    end
    local low, high = dropped + 1, #sums
    while low < high do
      local middle = math.floor((low + high) / 2)
      if sums[middle] - gone >= units then high = middle else low = middle + 1 end
    end
    return times[low] + window + 1 - time
  end

  -- In how many microseconds nothing will count any more, if `more` are taken now.
  function log.reset(more)
    if more > 0 then return now + window + 1 - time end
    return total > 0 and math.max(0, last + window + 1 - time) or 0
  end

  local function restamp()
    while read_more() do end
    local entries = {'last', string.format('%.0f', last)}
    for place = dropped + 1, #times do
      entries[#entries + 1] = head + place - 1
      entries[#entries + 1] = string.format('%.0f:%.0f', times[place], sums[place] - (sums[place - 1] or 0))
    end
    call_in_parts('HSET', key, entries)
    redis.call('PEXPIRE', key, math.floor(window / 1000) + 1)
  end

  -- Takes `amount` back from what was granted last. O(log entries that it undoes).
  local function take_back(amount)
    local number = tail
    while amount > 0 and number >= head + dropped do
      local at, cost = string.match(redis.call('HGET', key, number) or '', '^(%d+):(%d+)$')
      local part = math.min(amount, tonumber(cost) or 0)
      if part > 0 then redis.call('HSET', key, number, string.format('%s:%.0f', at, cost - part)) end
      amount, total, number = amount - part, total - part, number - 1
    end
    if tail >= head then redis.call('HSET', key, 'total', total) end
  end

  -- Keeps what was granted now, or takes it back where it is less than nothing, and drops what counts no more.
  function log.write(taken)
    if is_set_back and total > 0 then restamp() end
    if taken < 0 then take_back(-taken) end
    if taken > 0 then
      redis.call(
        'HSET', key, 'head', head + dropped, 'tail', tail + 1, 'total', total + taken, 'last', string.format('%.0f', now),
        tail + 1, string.format('%.0f:%.0f', now, taken))
      redis.call('PEXPIRE', key, math.floor((now + window - time) / 1000) + 1)
    elseif dropped > 0 and total > 0 then
      redis.call('HSET', key, 'head', head + dropped, 'total', total)
    elseif dropped > 0 then
      redis.call('DEL', key)
      return
    end
    local stale = {}
    for number = head, head + dropped - 1 do stale[#stale + 1] = number end
    call_in_parts('HDEL', key, stale)
  end

  -- Takes `amount` back from what was granted at `at`. Returns whether that is still in the log. O(log entries).
  function log.give_back(at, amount)
    local low, high = head, tail
    while low <= high do
      local middle = math.floor((low + high) / 2)
      local when, cost = string.match(redis.call('HGET', key, middle) or '', '^(%d+):(%d+)$')
      when, cost = tonumber(when) or 0, tonumber(cost) or 0
      if when == at then
        local returned = math.min(amount, cost)
        -- Nothing less would be -0, which is no number to Redis.
        if returned > 0 then
          redis.call('HSET', key, middle, string.format('%.0f:%.0f', at, cost - returned))
          redis.call('HINCRBY', key, 'total', -returned)
        end
        return true
      end
      if when < at then low = middle + 1 else high = middle - 1 end
    end
    return false
  end

  return log
end
