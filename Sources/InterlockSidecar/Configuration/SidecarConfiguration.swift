public import InterlockCore

/// What one sidecar is told at start: where Redis is, which doors it opens, who may enter, and the services it guards.
///
/// Every property has the default that an empty file leaves in force. `load(file:environment:flags:)` reads one.
public struct SidecarConfiguration: Sendable, Equatable {
    /// `redis`: the server that the fleet shares.
    public var redis = RedisSettings()
    /// `listen`: the doors.
    public var listen = ListenSettings()
    /// `log`: what is written to standard error, and how.
    public var log = LogSettings()
    /// `auth.keys`: who may enter. Empty by default: whoever reaches a loopback listener or the Unix socket is admin.
    public var keys: [APIKey] = []
    /// `locks`: the bounds that every lock lives within.
    public var locks = LockSettings()
    /// `fleet_size`: the least number of sidecars to assume when Redis is away; 1 by default.
    public var fleetSize = 1
    /// `services`: in the order of the file; names are unique. None by default.
    public var services: [ServiceDefinition] = []
    /// The folder of the embedded Redis, given by flag or environment only; `nil`: `$XDG_STATE_HOME/interlock`.
    public var dataDirectory: String?
    /// What was accepted but is not carried out by this version, one sentence each, opening with the key.
    public var warnings: [String] = []

    /// All defaults.
    public init() {}

    /// The services by their name. O(n) in services: keep the result.
    public var servicesByName: [String: ServiceDefinition] {
        Dictionary(services.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    }
}
