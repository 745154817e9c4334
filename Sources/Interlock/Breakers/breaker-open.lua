-- needs: breaker, breaker-change
-- Opens a breaker for the time that its configuration or the upstream asks for.
--
-- ARGV  the call also has: open_min and open_max (ms); optional: retry_after (ms), the minimum open time that the
--         upstream asked for; pause (ms), the open time that it asked for, with its limit longest (ms): the cause is
--         then "retry_after"

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
    -- Only failures add to the streak, because the other causes do not show how unhealthy the service is.
    streak = streak + 1
  end
  change('open', cause, now + math.ceil(pause), {streak = integer(streak)})
end
