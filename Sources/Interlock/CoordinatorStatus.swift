/// A sidecar at a glance.
public struct CoordinatorStatus: Sendable {
    /// Its ID in the fleet.
    public var id: String
    public var host: String
    public var version: String
    /// Which Redis, without credentials.
    public var redis: String
    public var isRedisUp: Bool
    /// Why Redis is not up, or what it has refused in the last ten seconds (at `maxmemory`, by its ACL); `nil`: neither.
    public var redisFailure: String?
    public var redisVersion: String?
    /// Anything but `noeviction` can lose locks.
    public var evictionPolicy: String?
    /// The live sidecars' IDs when Redis was last heard of.
    public var fleet: [String]
    public var locksHeld: Int
    public var locksWaiting: Int
    public var services: Int
    /// Those whose definition here is not the fleet's last one.
    public var servicesDiffering: [String]
    public var permitsUnderWay: Int
    /// Calls that wait for a place, or through a pause that a limit made.
    public var permitsWaiting: Int
    public var redisCommands: Int64
}
