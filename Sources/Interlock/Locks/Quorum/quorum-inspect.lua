-- Describes a lock on this server at one moment.
--
-- KEYS  1 lock  2 fence
-- ARGV  none
-- Reply {token or nil, ttl in ms (-1: no expiry, -2: not held), number of the last grant or nil}
--
-- Guarantees that nothing changes. The sidecar never reveals the token, only its label.

return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2])}
