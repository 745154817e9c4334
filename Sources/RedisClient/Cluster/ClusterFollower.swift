/// Connections to a cluster, one for each primary.
package protocol ClusterFollower: AnyObject {
    /// Which primaries there are, or what they serve, has changed.
    func mapChanged()
    /// Nothing is known of the cluster yet, and nobody could be asked.
    func remainsUnknown(because error: RedisError)
    /// Whether it is connected to every primary.
    var isSettled: Bool { get }
    /// The connections that can be asked which servers the cluster has; `nil`: they are for something else.
    var asked: [RedisPipeline]? { get }
}

extension ClusterFollower {
    package var asked: [RedisPipeline]? { nil }
    package func remainsUnknown(because error: RedisError) {}
}
