-- needs: breaker
-- The window of outcomes that a closed breaker is judged by.
--
-- KEYS  see `breaker.lua`; 3 is the window
-- ARGV  the call also has: calls, failures, slow (sums to add), slices (of the window), and window (ms) or window_calls

-- A window of calls does not depend on time. Without any calls, it is dropped after a day.
local IDLE_WINDOW = 86400000

local function counts(slice) return string.match(slice, '(%d+):(%d+):(%d+)') end

-- Adds the call's sums to the current slice. Returns its number, the number of slices in the window, and the window's
-- lifetime in ms.
local function add_by_time(slices)
  local width = math.max(1, math.floor(call.window / call.slices))
  local current = math.floor(now / width)
  local mine = slices[current] or {0, 0, 0}
  slices[current] = {mine[1] + call.calls, mine[2] + call.failures, mine[3] + call.slow}
  return current, call.slices, call.window + width
end

-- Spreads the call's sums evenly over slices, the last of which is not full. Returns the same.
local function add_by_calls(slices)
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

-- Adds the call's sums. Returns the sums of the window: calls, failures, slow.
local function add_to_window()
  local slices, stored_generation = {}, nil
  local stored = redis.call('HGETALL', KEYS[3])
  for i = 1, #stored, 2 do
    if stored[i] == 'generation' then
      stored_generation = stored[i + 1]
    else
      local c, f, s = counts(stored[i + 1])
      slices[tonumber(stored[i])] = {tonumber(c), tonumber(f), tonumber(s)}
    end
  end
  -- A sidecar with another kind of window that changed the state has emptied only its own window.
  if stored_generation ~= integer(generation) then
    redis.call('DEL', KEYS[3])
    slices = {}
  end
  local current, kept, lifetime
  if call.window then current, kept, lifetime = add_by_time(slices) else current, kept, lifetime = add_by_calls(slices) end
  local sums, written, dropped = {0, 0, 0}, {}, {}
  for number, slice in pairs(slices) do
    -- A slice from the future was counted with another length.
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
