/// Connections to a cluster, one for each primary.
package protocol ClusterFollower: AnyObject {
    /// Handles a change of the primaries or of the hash slots that they serve.
    func slotMapChanged()
    /// Handles a failed attempt to learn the slot map while it is still unknown.
    func slotMapUnavailable(because error: RedisError)
    /// Whether every primary is connected.
    var isFullyConnected: Bool { get }
    /// The connections over which the directory may query the slot map, or `nil` if they serve another purpose.
    var queryConnections: [RedisPipeline]? { get }
}

extension ClusterFollower {
    package var queryConnections: [RedisPipeline]? { nil }
    package func slotMapUnavailable(because error: RedisError) {}
}
