package import NIOCore

/// The Redis that a configuration names: a server at a fixed address, the primary that Sentinels report, or a cluster.
/// Creates the connections, which reconnect together. Confined to its event loop.
package final class RedisTopology {
    private let configuration: RedisConfiguration
    private let environment: RedisEnvironment
    /// The directory of a server at a fixed address; `nil` if Sentinels or a cluster report the servers.
    private let server: ServerDirectory?
    /// The directory of the primary that the Sentinels report; `nil` if there are no Sentinels.
    package let primary: PrimaryDirectory?
    /// The directory of the cluster's servers; `nil` if Redis is not a cluster.
    package let cluster: ClusterDirectory?

    package init(configuration: RedisConfiguration, environment: RedisEnvironment) {
        let configuration = configuration.withReplaceableSecrets(on: environment.eventLoop)
        self.configuration = configuration
        self.environment = environment
        // Connections that only discover servers, such as those to Sentinels, need neither the time nor scripts.
        var discoveryConfiguration = configuration
        discoveryConfiguration.serverTimeDelay = nil
        discoveryConfiguration.peerCheckKey = nil
        primary = PrimaryDirectory(following: discoveryConfiguration, environment: environment)
        cluster = ClusterDirectory(following: discoveryConfiguration, environment: environment)
        let hasOtherDirectory = primary != nil || cluster != nil
        server = hasOtherDirectory ? nil : ServerDirectory(address: configuration.address, environment: environment)
    }

    /// Creates the connections for commands.
    /// - Parameter reportsServers: whether the slot map of a cluster may be queried over these connections; `false` if
    ///   their commands take long. Queries use the first sender for which it is `true`.
    package func makeSender(reportsServers: Bool = true) -> any RedisSender {
        guard let cluster else {
            return RedisPipeline(configuration: configuration, environment: environment, directory: directory)
        }
        return ClusterPipeline(
            configuration: configuration, environment: environment, directory: cluster, reportsServers: reportsServers)
    }

    /// Creates the connections that subscribe to `channels` and receive invalidations of the tracked keys.
    package func receiver(channels: [String]) -> any RedisReceiver {
        var configuration = configuration
        configuration.serverTimeDelay = nil
        guard let cluster else {
            return RedisSubscriber(
                configuration: configuration, channels: channels, receivesInvalidations: true, environment: environment,
                directory: directory)
        }
        return ClusterSubscriber(
            configuration: configuration, channels: channels, environment: environment, directory: cluster)
    }

    /// The source of the server's address, unless Redis is a cluster.
    private var directory: (any RedisDirectory)? { if let primary { primary } else { server } }

    /// Makes new connections, including those to Sentinels, use the passwords and certificates of `new`. Open
    /// connections keep theirs.
    package func replaceSecrets(by new: RedisConfiguration) {
        configuration.replaceSecrets(by: new)
    }

    /// The largest number of replicas of any primary; `nil` if unknown.
    package var replicaCount: Int? {
        if let cluster { return cluster.view.isKnown ? cluster.view.maximumReplicas : nil }
        return primary?.replicaCount
    }

    /// Returns whether this server serves the key, according to the known slot map.
    package func serves(_ key: String, at server: RedisConfiguration.Address) -> Bool {
        cluster.map { $0.view.owner(of: HashSlot(ofKey: key)) == server } ?? true
    }

    /// Starts to discover the server's address from Sentinels or the cluster, if there are any.
    package func start() {
        primary?.start()
        cluster?.start()
    }

    /// Closes the connections to Sentinels, and those that only discover the servers of a cluster.
    package func close() -> EventLoopFuture<Void> {
        .andAllComplete([primary?.close(), cluster?.close()].compactMap(\.self), on: environment.eventLoop)
    }
}
