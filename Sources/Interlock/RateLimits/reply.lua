-- needs: batch
-- Updates the counters of an evaluated batch and packs the reply.

-- With `used`, sets each counter to that usage; without it, takes everything requested. `details` is what the script
-- adds to the reply: first, for each counter, the number of calls that its shadow limit would refuse.
--
-- Returns whole numbers in MessagePack: the time in microseconds; 1 if every call was granted, shadow limits included,
-- otherwise 0; for each counter, its usage before the batch, and the ms until its full capacity is available again
-- after it; unless every call was granted, the details.
local function take_and_reply(used, details)
  local reply, length = {time, has_room_for_all and 1 or 0}, 2
  for k = 1, #KEYS do
    local taken = used and used[k] - before[k] or batch[asked + k]
    local reset = ttl[k]
    if reset then
      if taken > 0 then
        if before[k] > 0 or values[k] == '0' then
          call('INCRBY', KEYS[k], taken == 1 and '1' or taken)
        else
          call('SET', KEYS[k], taken == 1 and '1' or taken, 'PX', reset)
        end
      elseif taken < 0 then
        call('DECRBY', KEYS[k], -taken)
      end
      reset = reset + 1
    elseif opened[k].now then
      reset = math.ceil(opened[k].reset(taken) / 1000)
      opened[k].write(taken)
    else
      reset = math.ceil(opened[k].wait(taken, 0) / 1000)
      if taken ~= 0 or opened[k].needs_write then opened[k].write(KEYS[k], taken) end
    end
    reply[length + 1], reply[length + 2] = before[k], reset
    length = length + 2
  end
  if details then
    for i = 1, #details do reply[length + i] = details[i] end
  end
  return cmsgpack.pack(reply)
end
