-- needs: breaker
-- The window of outcomes that decides whether a closed breaker opens.
--
-- KEYS  see `breaker.lua`; 3 is the window
-- ARGV  the call also has: calls, failures, slow (sums to add), slices (of the window), and window (ms) or window_calls

-- A window of calls does not depend on time. It is dropped after a day without calls.
local IDLE_WINDOW = 86400000

local function parse(slice) return string.match(slice, '(%d+):(%d+):(%d+)') end

-- Adds the call's sums to the current slice. Returns its number, the number of slices in the window, and the window's
-- lifetime in ms.
local function add_by_time(slices)
  local width = math.max(1, math.floor(call.window / call.slices))
  local current = math.floor(now / width)
  local slice = slices[current] or {0, 0, 0}
  slices[current] = {slice[1] + call.calls, slice[2] + call.failures, slice[3] + call.slow}
  return current, call.slices, call.window + width
end

-- Spreads the call's sums evenly over slices, the last of which is not full. Returns the same as `add_by_time`.
local function add_by_calls(slices)
  local width = math.ceil(call.window_calls / call.slices)
  local current = 0
  for number in pairs(slices) do current = math.max(current, number) end
  local remaining = {call.calls, call.failures, call.slow}
  local max_calls = width * (call.slices + 1)
  if remaining[1] > max_calls then
    local share = max_calls / remaining[1]
    remaining = {max_calls, math.floor(remaining[2] * share + 0.5), math.floor(remaining[3] * share + 0.5)}
  end
  while remaining[1] > 0 do
    local slice = slices[current] or {0, 0, 0}
    if slice[1] >= width then
      current = current + 1
      slice = {0, 0, 0}
    end
    local share = math.min(1, (width - slice[1]) / remaining[1])
    slices[current] = {slice[1], slice[2], slice[3]}
    for i = 1, 3 do
      local part = i == 1 and math.min(remaining[1], width - slice[1]) or math.floor(remaining[i] * share + 0.5)
      slices[current][i] = slice[i] + part
      remaining[i] = remaining[i] - part
    end
  end
  return current, call.slices + 1, IDLE_WINDOW
end

-- Adds the call's sums. Returns the sums of the window: calls, failures, slow.
local function add_to_window()
  local slices, stored_generation = {}, nil
  local stored = redis.call('HGETALL', KEYS[3])
  for i = 1, #stored, 2 do
    if stored[i] == 'generation' then
      stored_generation = stored[i + 1]
    else
      local c, f, s = parse(stored[i + 1])
      slices[tonumber(stored[i])] = {tonumber(c), tonumber(f), tonumber(s)}
    end
  end
  -- If a sidecar with another kind of window changed the state, it emptied only its own window.
  if stored_generation ~= integer(generation) then
    redis.call('DEL', KEYS[3])
    slices = {}
  end
  local current, slice_count, lifetime
  if call.window then
    current, slice_count, lifetime = add_by_time(slices)
  else
    current, slice_count, lifetime = add_by_calls(slices)
  end
  local sums, written, dropped = {0, 0, 0}, {}, {}
  for number, slice in pairs(slices) do
    -- A slice with a number from the future belongs to slices of another length.
    if number <= current - slice_count or number > current then
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
