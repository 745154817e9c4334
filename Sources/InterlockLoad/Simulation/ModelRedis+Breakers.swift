internal import Interlock
internal import InterlockCore

extension ModelRedis {
    /// What `breaker.lua` is called with.
    struct BreakerCall {
        var service: String
        var settings: BreakerSettings
        var operation: BreakerOperation
        var by: String
        var origin: String
        /// 0…1.
        var random: Double
    }

    /// `breaker.lua`: decides about one service's breaker, under its generation number.
    mutating func breaker(_ call: BreakerCall, keys: KeySpace) -> BreakerReply {
        var run = BreakerRun(call: call, keys: keys, redis: ModelRedis(microseconds: 0))
        swap(&self, &run.redis)
        defer { swap(&self, &run.redis) }
        return run.reply()
    }
}
