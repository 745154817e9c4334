-- Takes what was judged, and tells of it: what scripts that judge a batch end with.
--
-- Of `used`, what is taken of each counter afterwards, and `told_last`, what else there is to tell; nil: everything was granted.
--
-- Reply whole numbers in MessagePack: time in microseconds; whether every call was granted, and by shadows too (1 or 0);
--       of each counter: what was taken before, ms until it is whole again after this;
--       unless every call was granted: of each counter how many calls its shadow would refuse; then what the script tells

local reply, length = {time, is_room_for_all and 1 or 0}, 2
for k = 1, #KEYS do
  local taken = used and used[k] - before[k] or batch[asked + k]
  local reset = ttl[k]
  if reset then
    if taken > 0 then
      if before[k] > 0 then
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
    if taken ~= 0 or opened[k].is_cut then opened[k].write(KEYS[k], taken) end
  end
  reply[length + 1], reply[length + 2] = before[k], reset
  length = length + 2
end
if told_last then
  for place = 1, #told_last do reply[length + place] = told_last[place] end
end
return cmsgpack.pack(reply)
