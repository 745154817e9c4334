/// Connections to a cluster, one for each primary.
package protocol ClusterFollower: AnyObject {
    /// Called when the primaries or the hash slots that they serve have changed.
    func slotMapChanged()
    /// Called when an attempt to learn the slot map failed while it is still unknown.
    func slotMapUnavailable(because error: RedisError)
    /// Whether every primary is connected.
    var isFullyConnected: Bool { get }
    /// The connections over which the directory may query the slot map; `nil` if it must use others.
    var queryConnections: [RedisPipeline]? { get }
}

extension ClusterFollower {
    package var queryConnections: [RedisPipeline]? { nil }
    package func slotMapUnavailable(because error: RedisError) {}
}
