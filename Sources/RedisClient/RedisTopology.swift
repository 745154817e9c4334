package import NIOCore

/// One Redis, reached at one address, as the primary that Sentinels name, or as a cluster. Creates the connections to
/// it, which reconnect together. Confined to its event loop.
package final class RedisTopology {
    private let configuration: RedisConfiguration
    private let environment: RedisEnvironment
    /// The group that keeps connections to one address at one server, or `nil` if Sentinels or a cluster name the
    /// server.
    private let server: ServerDirectory?
    /// The primary as the Sentinels name it, or `nil` if there are no Sentinels.
    package let primary: PrimaryDirectory?
    /// The slot map of the cluster, or `nil` if Redis is not a cluster.
    package let cluster: ClusterDirectory?

    package init(configuration: RedisConfiguration, environment: RedisEnvironment) {
        let configuration = configuration.withReplaceableSecrets(on: environment.eventLoop)
        self.configuration = configuration
        self.environment = environment
        // Peers that only name the Redis, such as Sentinels, need neither report the time nor run scripts.
        var asked = configuration
        asked.knowsTimeAfter = nil
        asked.peerCheckKey = nil
        primary = PrimaryDirectory(following: asked, environment: environment)
        cluster = ClusterDirectory(following: asked, environment: environment)
        let isElsewhere = primary != nil || cluster != nil
        server = isElsewhere ? nil : ServerDirectory(address: configuration.address, environment: environment)
    }

    /// Creates the connections for commands.
    /// - Parameter reportsServers: whether the slot map of a cluster may be asked for over these connections; `false`
    ///   if their commands wait for long. The first such sender's connections are used.
    package func sender(reportsServers: Bool = true) -> any RedisSender {
        guard let cluster else {
            return RedisPipeline(configuration: configuration, environment: environment, directory: directory)
        }
        return ClusterPipeline(
            configuration: configuration, environment: environment, directory: cluster, reportsServers: reportsServers)
    }

    /// Creates the connections that subscribe to `channels` and receive invalidations of the keys tracked for them.
    package func listener(channels: [String]) -> any RedisListener {
        var configuration = configuration
        configuration.knowsTimeAfter = nil
        guard let cluster else {
            return RedisSubscriber(
                configuration: configuration, channels: channels, receivesInvalidations: true, environment: environment,
                directory: directory)
        }
        return ClusterSubscriber(
            configuration: configuration, channels: channels, environment: environment, directory: cluster)
    }

    /// The address source of a Redis that is not a cluster.
    private var directory: (any RedisDirectory)? { if let primary { primary } else { server } }

    /// Makes new connections, including those to Sentinels, use the passwords and certificates of `new`.
    package func replaceSecrets(by new: RedisConfiguration) {
        configuration.replaceSecrets(by: new)
    }

    /// The most replicas that a primary has, or `nil` if it is unknown.
    package var replicas: Int? {
        if let cluster { return cluster.view.isKnown ? cluster.view.maximumReplicas : nil }
        return primary?.replicas
    }

    /// Returns whether a key is at this server, as far as is known.
    package func serves(_ key: String, at server: RedisConfiguration.Address) -> Bool {
        cluster.map { $0.view.owner(of: HashSlot(ofKey: key)) == server } ?? true
    }

    /// Starts to ask Sentinels or the cluster for the server's address, if there are any.
    package func start() {
        primary?.start()
        cluster?.start()
    }

    /// Closes the connections to Sentinels, and those that only ask a cluster.
    package func close() -> EventLoopFuture<Void> {
        .andAllComplete([primary?.close(), cluster?.close()].compactMap(\.self), on: environment.eventLoop)
    }
}
