-- Counts usage, for each algorithm of a limit.
--
-- Times are whole microseconds of the Redis clock. Redis creates a script's functions on every call, which slows down
-- fixed windows, which need none of them: `open_cells` and `open_log` create what only the other algorithms need.

-- Calls a command in parts if it has many arguments, because Lua's stack holds only about 8,000.
local function call_in_parts(command, key, arguments, use)
  local max_arguments = 4000
  for first = 1, #arguments, max_arguments do
    local last = math.min(first + max_arguments - 1, #arguments)
    local reply
    if key then
      reply = redis.call(command, key, unpack(arguments, first, last))
    else
      reply = redis.call(command, unpack(arguments, first, last))
    end
    if use then use(first, reply) end
  end
end

-- Opens a counter of the generic cell rate algorithm (ITU-T I.371): `limit` units per `window`, stored as the
-- theoretical arrival time of the next unit, TAT. Exact while the time of the maximum number of units,
-- window/limit each, is below 2^52. Returns nil if `value` is not such a counter.
--
-- `value` is `TAT:0LWCP`: the limit L in 10 digits, the window W in ms in 11 and the capacity C in 7 with which it was
-- written, and P limit-ths of a microsecond. So no value is rounded, and usage under another rate counts as the same
-- fraction of this limit. Versions up to 0.2.0 wrote `TAT`, or `TAT:P` without a leading zero, and read the longer form
-- as one microsecond later.
--
-- A counter may owe more than `capacity`. If it owes more than the capacity with which it was written, the clock was
-- set back. The counter at `key` then expires when the limit would have filled, so that no caller waits longer.
-- Otherwise the units were taken under a larger burst, perhaps by sidecars that still have it while a fleet is
-- reloaded. The counter then lasts at most one window. With `is_peek`, the counter does not change.
local function open_cells(limit, window, value, time, capacity, key, is_peek)
  local step = math.floor(window / limit)
  local remainder = window - step * limit
  local rule = string.format('0%010.0f%011.0f%07.0f', limit, window / 1000, capacity)
  local cells = {}
  local tat, part, stored_capacity = time, 0, capacity
  if value then
    local whole, other = string.match(value, '^(%d+):?(%d*)$')
    if not whole then return nil end
    tat = tonumber(whole)
    if string.sub(other, 1, 29) == rule then
      part = tonumber(string.sub(other, 30)) or 0
    elseif #other > 29 and string.byte(other) == 48 then
      local stored_limit, stored_window = tonumber(string.sub(other, 2, 11)), tonumber(string.sub(other, 12, 22)) * 1000
      if stored_limit == 0 or stored_window == 0 then return nil end
      stored_capacity, part = tonumber(string.sub(other, 23, 29)), tonumber(string.sub(other, 30))
      if tat > time and (stored_limit ~= limit or stored_window ~= window) then
        local owed = (tat - time + part / stored_limit) * (stored_limit / stored_window) * (window / limit)
        tat, part = time + math.floor(owed), math.ceil((owed - math.floor(owed)) * limit)
        cells.needs_write = not is_peek
      end
    else
      part = tonumber(other) or 0
    end
    -- Rounded up, so that nothing is granted too early.
    if part >= limit then tat, part = tat + 1, 0 end
    if tat < time then tat, part = time, 0 end
  end
  -- The microseconds until the key expires, if it expires before the debt is repaid; otherwise nil.
  local expires_in

  -- Returns the time of `units`, which may be negative, in whole microseconds and limit-ths of one.
  local function span(units)
    local parts = units * remainder
    local whole = math.floor(parts / limit)
    return units * step + whole, parts - whole * limit
  end

  local owed, fill = tat - time, capacity * (window / limit)
  if owed > fill + 1 then
    local max_debt = owed > stored_capacity * (window / limit) + 1 and fill or math.max(fill, window)
    if owed > max_debt + 1 then
      local left, max_ttl = redis.call('PTTL', key), math.max(1, math.ceil(max_debt / 1000) - 1)
      if left < 0 or left > max_ttl then
        left = max_ttl
        if not is_peek then redis.call('PEXPIRE', key, max_ttl) end
      end
      expires_in = (left + 1) * 1000
    end
  end

  -- Returns TAT after `units` more are taken.
  local function after(units)
    local whole, parts = span(units)
    whole, parts = tat + whole, part + parts
    if parts >= limit then return whole + 1, parts - limit end
    return whole, parts
  end

  -- Returns the number of units taken, including a partial one; `capacity` + 1 stands for any number above `capacity`.
  function cells.taken(capacity)
    local whole = tat - time
    local units = math.ceil((whole + part / limit) / (window / limit))
    -- The quotient is rounded, so it may be off by one.
    if units > capacity + 1 then return capacity + 1 end
    local exact, parts = span(units)
    if exact < whole or (exact == whole and parts < part) then return math.min(units, capacity) + 1 end
    exact, parts = span(units - 1)
    if units > 0 and (exact > whole or (exact == whole and parts >= part)) then return units - 1 end
    return units
  end

  -- Returns the microseconds, rounded up, until no more than `units` are taken, if `more` are taken now.
  function cells.wait(more, units)
    local whole, parts = after(more)
    local target, target_parts = span(units)
    local wait = math.max(0, whole - target - time + (parts > target_parts and 1 or 0))
    return expires_in and math.min(wait, expires_in) or wait
  end

  local function keep(key, whole, parts)
    local left = whole - time + (parts > 0 and 1 or 0)
    if left <= 0 then
      redis.call('DEL', key)
      return
    end
    if expires_in then left = math.min(left, expires_in) end
    redis.call('SET', key, string.format('%.0f:%s%.0f', whole, rule, parts), 'PX', math.ceil(left / 1000))
  end

  -- Stores the counter with `more` units taken.
  function cells.write(key, more) keep(key, after(more)) end

  -- Refunds `units`, the last of which would recover in `left` microseconds without a refund. Units that have already
  -- recovered are not credited again.
  function cells.refund(key, units, left)
    local whole, parts = after(-units)
    if whole < tat - left or (whole == tat - left and parts < part) then whole, parts = tat - left, part end
    keep(key, whole, parts)
  end

  return cells
end

-- Opens a counter of windows that are aligned with the Redis clock, `BEGIN:COUNT` with BEGIN as Unix time in ms.
-- Returns nil if `value` is not such a counter. Usage from before the clock was set back counts in the current window
-- and ends with it.
local function open_aligned(window, value, time)
  local now = math.floor(time / 1000)
  local first = now - now % window
  local aligned = {count = 0}
  if value then
    local at, count = string.match(value, '^(%d+):(%d+)$')
    if not at then return nil end
    at = tonumber(at)
    if at >= first then aligned.count = tonumber(count) end
    aligned.needs_write = at > first
  end

  -- Returns the microseconds until no more than `units` are taken, if `more` are taken now.
  function aligned.wait(more, units)
    return aligned.count + more > units and (first + window) * 1000 - time or 0
  end

  -- Stores the counter with `more` taken, which may be negative.
  function aligned.write(key, more)
    redis.call('SET', key, string.format('%.0f:%.0f', first, aligned.count + more), 'PX', first + window - now)
  end

  return aligned
end

-- Opens the log of a sliding window, a hash: entries `time:cost` under increasing numbers from `head` to `tail`, their
-- `total`, and the time of the `last`. An entry counts until `window` after its own time, inclusive. Callers read a
-- reply at least one microsecond later, so waits need not include that moment. Nothing is written before `write`.
-- O(expired entries), amortized O(1) for each grant.
local function open_log(key, window, time)
  local state = redis.call('HMGET', key, 'head', 'tail', 'total', 'last')
  local head, tail = tonumber(state[1]) or 1, tonumber(state[2]) or 0
  local total, last = tonumber(state[3]) or 0, tonumber(state[4]) or 0
  -- After a clock step back, entries dated in the future get the current time and are rewritten.
  local is_set_back = last > time
  if is_set_back then last = time end
  -- The entries read so far, starting at `head`: their times, and the running sums of their costs.
  local times, sums, dropped, part = {}, {}, 0, 16
  local log = {now = time}

  local function read_more()
    local fields = {}
    for number = head + #times, math.min(head + #times + part - 1, tail) do fields[#fields + 1] = number end
    if #fields == 0 then return false end
    part = math.min(4 * part, 1024)
    local entries = redis.call('HMGET', key, unpack(fields))
    for index = 1, #fields do
      local at, cost = string.match(entries[index] or '', '^(%d+):(%d+)$')
      at = tonumber(at) or 0
      sums[#times + 1] = (sums[#times] or 0) + (tonumber(cost) or 0)
      times[#times + 1] = is_set_back and math.min(at, time) or at
    end
    return true
  end

  while (dropped < #times or read_more()) and times[dropped + 1] < time - window do dropped = dropped + 1 end
  local expired = sums[dropped] or 0
  total = total - expired
  log.total = total

  -- Returns the microseconds until `units` of the current usage, including the current grant, have expired.
  function log.wait(units)
    if units <= 0 then return 0 end
    while (sums[#sums] or 0) - expired < units do
      if not read_more() then return window end
    end
    local low, high = dropped + 1, #sums
    while low < high do
      local middle = math.floor((low + high) / 2)
      if sums[middle] - expired >= units then high = middle else low = middle + 1 end
    end
    return math.max(1, times[low] + window - time)
  end

  -- Returns the microseconds until all usage has expired, if `more` are taken now.
  function log.reset(more)
    if more > 0 then return window end
    return total > 0 and math.max(1, last + window - time) or 0
  end

  local function restamp()
    while read_more() do end
    local entries = {'last', string.format('%.0f', last)}
    for index = dropped + 1, #times do
      if times[index] == time then
        entries[#entries + 1] = head + index - 1
        entries[#entries + 1] = string.format('%.0f:%.0f', time, sums[index] - (sums[index - 1] or 0))
      end
    end
    call_in_parts('HSET', key, entries)
    redis.call('PEXPIRE', key, math.floor(window / 1000) + 1)
  end

  -- Withdraws `amount` from the latest grants. O(n) in the entries that it changes.
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

  -- Stores the current grant, or withdraws its amount if it is negative, and drops expired entries.
  function log.write(taken)
    if is_set_back and head + dropped <= tail then restamp() end
    if taken < 0 then take_back(-taken) end
    if taken > 0 then
      redis.call(
        'HSET', key, 'head', head + dropped, 'tail', tail + 1, 'total', total + taken, 'last', string.format('%.0f', time),
        tail + 1, string.format('%.0f:%.0f', time, taken))
      redis.call('PEXPIRE', key, math.floor(window / 1000) + 1)
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

  -- Refunds `amount` of the grant made at `at`. Returns whether that grant is still in the log. O(log n) in its
  -- entries.
  function log.refund(at, amount)
    local low, high = head, tail
    while low <= high do
      local middle = math.floor((low + high) / 2)
      local when, cost = string.match(redis.call('HGET', key, middle) or '', '^(%d+):(%d+)$')
      when, cost = tonumber(when) or 0, tonumber(cost) or 0
      if when == at then
        local returned = math.min(amount, cost)
        -- A refund of 0 would be written as -0, which Redis does not accept as a number.
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
