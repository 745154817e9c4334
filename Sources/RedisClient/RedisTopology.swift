package import NIOCore

/// One Redis in whichever way it is reached: at one address, as the primary that Sentinels name, or as a cluster. Makes the connections
/// to it, which move together. Confined to its event loop.
package final class RedisTopology {
    private let configuration: RedisConfiguration
    private let environment: RedisEnvironment
    /// Keeps connections to one address at one server; `nil` when Sentinels or a cluster name the server.
    private let server: ServerDirectory?
    /// Where the primary is, by Sentinels; `nil`: nobody asks them.
    package let primary: PrimaryDirectory?
    /// Which primary serves what; `nil`: Redis is no cluster.
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

    /// Connections that commands go by.
    /// - Parameter tellsOfServers: whether a cluster may be asked for its servers over them: not where commands wait long. Those of the
    ///   first sender that allows it are.
    package func sender(tellsOfServers: Bool = true) -> any RedisSender {
        guard let cluster else {
            return RedisPipeline(configuration: configuration, environment: environment, directory: directory)
        }
        return ClusterPipeline(
            configuration: configuration, environment: environment, directory: cluster, tellsOfServers: tellsOfServers)
    }

    /// Connections that hear `channels`, and which keys were changed of those that are tracked for them.
    package func listener(channels: [String]) -> any RedisListener {
        var configuration = configuration
        configuration.knowsTimeAfter = nil
        guard let cluster else {
            return RedisSubscriber(
                configuration: configuration, channels: channels, hearsInvalidations: true, environment: environment,
                directory: directory)
        }
        return ClusterSubscriber(
            configuration: configuration, channels: channels, environment: environment, directory: cluster)
    }

    /// The connections of a Redis that is not a cluster.
    private var directory: (any RedisDirectory)? { if let primary { primary } else { server } }

    /// Makes new connections, including those to Sentinels, use the passwords and certificates of `new`.
    package func replaceSecrets(by new: RedisConfiguration) {
        configuration.replaceSecrets(by: new)
    }

    /// The most replicas that a primary has; `nil`: nobody says.
    package var replicas: Int? {
        if let cluster { return cluster.view.isKnown ? cluster.view.mostReplicas : nil }
        return primary?.replicas
    }

    /// Whether a key is at this server, as far as is known.
    package func serves(_ key: String, at server: RedisConfiguration.Address) -> Bool {
        cluster.map { $0.view.owner(of: HashSlot(ofKey: key)) == server } ?? true
    }

    /// Begins to ask where Redis is, if anybody must be asked.
    package func start() {
        primary?.start()
        cluster?.start()
    }

    /// Asks nobody any more.
    package func close() -> EventLoopFuture<Void> {
        .andAllComplete([primary?.close(), cluster?.close()].compactMap(\.self), on: environment.eventLoop)
    }
}
