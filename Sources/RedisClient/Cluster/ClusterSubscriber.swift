package import NIOCore

/// The subscriptions to a cluster. Confined to its event loop.
///
/// Each primary sends the invalidations of the keys tracked there and the messages of the shard channels of its hash
/// slots. One primary is enough for the plain channels, because the cluster forwards their messages to every node.
///
/// Source: "Redis Cluster specification", section "Publish/Subscribe"; "Redis Pub/Sub", section "Sharded Pub/Sub".
package final class ClusterSubscriber: RedisReceiver {
    private let configuration: RedisConfiguration
    private let channels: [String]
    private let environment: RedisEnvironment
    private let directory: ClusterDirectory
    private var servers: [RedisConfiguration.Address: RedisSubscriber] = [:]
    /// The server at which the plain channels are subscribed.
    private var channelServer: RedisConfiguration.Address?
    /// The shard channels, with the hash slot of each and the server at which it is subscribed.
    private var shardChannels: [String: (slot: HashSlot, server: RedisConfiguration.Address?)] = [:]
    private var supportsShardChannels = true
    private var isClosed = false

    package var onMessage: ((_ channel: String, _ payload: [UInt8]) -> Void)?
    package var onInvalidated: ((_ keys: [String]?) -> Void)?
    package var onSubscribed: (() -> Void)?
    package var onReceivingInvalidations: ((_ clientID: Int64, _ server: RedisConfiguration.Address) -> Void)?
    package var onDown: ((_ error: RedisError, _ server: RedisConfiguration.Address) -> Void)?

    init(
        configuration: RedisConfiguration, channels: [String], environment: RedisEnvironment, directory: ClusterDirectory
    ) {
        self.configuration = configuration
        self.channels = channels
        self.environment = environment
        self.directory = directory
    }

    package var isSubscribed: Bool { channelServer.flatMap { servers[$0]?.isSubscribed } ?? false }

    package func start() { directory.add(self) }

    package func close() -> EventLoopFuture<Void> {
        isClosed = true
        return .andAllComplete(servers.values.map { $0.close() }, on: environment.eventLoop)
    }

    private func open(_ address: RedisConfiguration.Address) -> RedisSubscriber {
        let subscriber = RedisSubscriber(
            configuration: configuration.server(at: address, of: directory.view), channels: [], receivesInvalidations: true,
            environment: environment, directory: directory.directory(of: address))
        subscriber.onMessage = { [weak self] in self?.onMessage?($0, $1) }
        subscriber.onInvalidated = { [weak self] in self?.onInvalidated?($0) }
        subscriber.onSubscribed = { [weak self] in self?.onSubscribed?() }
        subscriber.onReceivingInvalidations = { [weak self] in self?.onReceivingInvalidations?($0, $1) }
        subscriber.onShardChannelsUnsupported = { [weak self] in self?.supportsShardChannels = false }
        subscriber.onUp = { [weak self] in self?.serverConnected(at: address) }
        subscriber.onDown = { [weak self] error, address in self?.connectionFailed(to: address, because: error) }
        return subscriber
    }

    private func serverConnected(at address: RedisConfiguration.Address) {
        if channelServer == nil { subscribe(at: address) }
        directory.followerConnected()
    }

    private func connectionFailed(to address: RedisConfiguration.Address, because error: RedisError) {
        // If the server is up, it refused the subscription, and its subscriber retries: the others would refuse it too.
        if channelServer == address, !(servers[address]?.isUp ?? false) { releaseChannelServer() }
        onDown?(error, address)
    }

    private func subscribe(at address: RedisConfiguration.Address) {
        channelServer = address
        servers[address]?.subscribe(channels)
    }

    /// Moves the plain channels to another server that is up, or to the next one that comes up.
    private func releaseChannelServer() {
        if let channelServer { servers[channelServer]?.subscribe([]) }
        channelServer = nil
        if let next = directory.view.primaries.first(where: { servers[$0]?.isUp ?? false }) { subscribe(at: next) }
    }

    // MARK: Shard channels

    package func subscribe(shardChannel channel: String, _ shouldSubscribe: Bool) {
        guard shouldSubscribe else {
            if let server = shardChannels.removeValue(forKey: channel)?.server {
                servers[server]?.subscribe(shardChannel: channel, false)
            }
            return
        }
        guard supportsShardChannels, shardChannels[channel] == nil else { return }
        shardChannels[channel] = (HashSlot(ofKey: channel), nil)
        updateSubscription(to: channel)
    }

    /// Subscribes to a shard channel at the server that serves its hash slot now.
    private func updateSubscription(to channel: String) {
        guard let (slot, server) = shardChannels[channel] else { return }
        let owner = directory.view.owner(of: slot)
        guard owner != server else { return }
        if let server { servers[server]?.subscribe(shardChannel: channel, false) }
        shardChannels[channel] = (slot, owner)
        if let owner { servers[owner]?.subscribe(shardChannel: channel, true) }
    }
}

extension ClusterSubscriber: ClusterFollower {
    package var isFullyConnected: Bool { servers.values.allSatisfy(\.isUp) }

    package func slotMapChanged() {
        guard !isClosed else { return }
        let primaries = directory.view.primaries
        // Reconnect to servers that were dialed before their host names were known.
        for address in primaries {
            guard let existing = servers[address], !existing.isUp,
                existing.serverName != configuration.server(at: address, of: directory.view).serverName
            else { continue }
            servers[address] = nil
            _ = existing.close()
        }
        for address in primaries where servers[address] == nil {
            let subscriber = open(address)
            servers[address] = subscriber
            subscriber.start()
        }
        for channel in shardChannels.keys.sorted() { updateSubscription(to: channel) }
        for (address, subscriber) in servers.sorted(by: { $0.key.description < $1.key.description })
        where !primaries.contains(address) {
            servers[address] = nil
            _ = subscriber.close()
            onDown?(RedisError(.notConnected, "\(address) is no longer a primary of the cluster"), address)
        }
        if let channelServer, servers[channelServer] == nil { releaseChannelServer() }
    }
}
