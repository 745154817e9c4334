# Ruby's redis.
require "redis"
port, key = ARGV
one, other = Array.new(2) { Redis.new(host: "127.0.0.1", port: port.to_i, password: key) }
puts one.ping
lease = one.call("LOCK.ACQUIRE", "orders", 30_000)
puts lease.length
puts other.call("LOCK.ACQUIRE", "orders", 30_000) || "nil"
puts one.call("LOCK.RELEASE", "orders", lease[0])
puts one.call("LIMIT.TAKE", "catalog")[0]
begin
  one.call("LOCK.ACQUIRE", "orders")
rescue Redis::CommandError => e
  puts e.message.split(" ")[0]
end
