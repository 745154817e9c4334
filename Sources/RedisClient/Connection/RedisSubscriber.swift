package import NIOCore

/// A dedicated connection for subscriptions that reconnects like the connection of a `RedisPipeline`. Confined to its
/// event loop.
///
/// Pub/sub loses messages while the connection is down, so read the state again in `onSubscribed`.
package final class RedisSubscriber: RedisReceiver {
    private let link: RedisLink
    private let address: RedisConfiguration.Address
    /// The name that the server's certificate is checked against; `nil` to check its address.
    let serverName: String?
    private var channels: [String]
    /// The shard channels of the server's hash slots, if it belongs to a cluster.
    private var shardChannels: [String] = []
    private let checkInterval: TimeAmount
    /// The requests that the server has not confirmed yet, in order.
    private var requests: [Request] = []
    /// Whether all channels are subscribed.
    package private(set) var isSubscribed = false
    /// Whether the server refused the subscription, which is requested again at the next check.
    private var isRefused = false
    private var check: Scheduled<Void>?

    private struct Request {
        enum Kind {
            case channels, unsubscribe, invalidations, shardChannel, shardUnsubscribe

            /// The kind of message that confirms the request.
            var confirmation: String {
                switch self {
                case .channels, .invalidations: "subscribe"
                case .unsubscribe: "unsubscribe"
                case .shardChannel: "ssubscribe"
                case .shardUnsubscribe: "sunsubscribe"
                }
            }
        }

        var kind: Kind
        /// The channels that are not confirmed yet.
        var channels: [String]
    }

    /// The channel on which the server announces changes of the keys that another connection tracks.
    package static let invalidations = "__redis__:invalidate"

    /// The default interval between checks of the peer.
    package static let defaultCheckInterval = Duration.seconds(5)

    private let receivesInvalidations: Bool
    /// The client ID of this connection.
    private var clientID: Int64?

    /// Called with the client ID of this connection once other connections can redirect their tracking to it. A server
    /// that refuses the channel of invalidations still accepts the other subscriptions.
    package var onReceivingInvalidations: ((_ clientID: Int64, _ server: RedisConfiguration.Address) -> Void)?
    /// Called with the tracked keys that have changed, or with `nil` if all of them may have changed.
    package var onInvalidated: ((_ keys: [String]?) -> Void)?
    /// Called with each message: the channel and the payload.
    package var onMessage: ((_ channel: String, _ payload: [UInt8]) -> Void)?
    /// Called when all channels are subscribed: the first time and after each loss.
    package var onSubscribed: (() -> Void)?
    /// Called when the connection is lost, an attempt fails, or the server refuses the subscription.
    package var onDown: ((_ error: RedisError, _ server: RedisConfiguration.Address) -> Void)?
    /// Called when the connection is up and every subscription is requested.
    var onUp: (() -> Void)?
    /// Called when the server does not support shard channels, or does not allow them.
    var onShardChannelsUnsupported: (() -> Void)?

    /// Creates a subscriber, inactive until `start`.
    /// - Parameters:
    ///   - channels: the channels; empty to receive only invalidations.
    ///   - receivesInvalidations: whether to receive invalidations; see `onInvalidated`.
    ///   - checkInterval: the interval between checks of the peer. After two intervals without a message the connection
    ///     is closed.
    package convenience init(
        configuration: RedisConfiguration,
        channels: [String],
        receivesInvalidations: Bool = false,
        environment: RedisEnvironment,
        checkInterval: Duration = RedisSubscriber.defaultCheckInterval
    ) {
        self.init(
            configuration: configuration, channels: channels, receivesInvalidations: receivesInvalidations,
            environment: environment,
            directory: nil, checkInterval: checkInterval)
    }

    /// Creates a subscriber, inactive until `start`.
    /// - Parameter directory: the source of the server's address, which may change; `nil` to use the
    ///   configuration's.
    init(
        configuration: RedisConfiguration, channels: [String], receivesInvalidations: Bool, environment: RedisEnvironment,
        directory: (any RedisDirectory)?, checkInterval: Duration = RedisSubscriber.defaultCheckInterval
    ) {
        address = configuration.address
        serverName = configuration.serverName
        self.channels = channels
        self.receivesInvalidations = receivesInvalidations
        self.checkInterval = TimeAmount(checkInterval)
        link = RedisLink(configuration: configuration, environment: environment, directory: directory)
        link.onUp = { [weak self] in
            self?.subscribe(on: $0)
            self?.onUp?()
        }
        link.onDown = { [weak self] error in
            guard let self else { return }
            check?.cancel()
            check = nil
            clientID = nil
            isSubscribed = false
            onDown?(error, address)
        }
    }

    deinit {
        link.closeOnDeinit()
    }

    var isUp: Bool { link.handler?.isOpen ?? false }

    /// Subscribes to these channels instead of the current ones.
    func subscribe(_ channels: [String]) {
        let formerChannels = self.channels
        self.channels = channels
        isRefused = false
        isSubscribed = false
        guard let handler = link.handler else { return }
        if !formerChannels.isEmpty { request(.unsubscribe, ["UNSUBSCRIBE"] + formerChannels, by: handler) }
        if !channels.isEmpty { request(.channels, ["SUBSCRIBE"] + channels, by: handler) }
    }

    /// Subscribes to a shard channel of one of the server's hash slots, or unsubscribes from it.
    package func subscribe(shardChannel channel: String, _ shouldSubscribe: Bool) {
        guard shardChannels.contains(channel) != shouldSubscribe else { return }
        if shouldSubscribe { shardChannels.append(channel) } else { shardChannels.removeAll { $0 == channel } }
        guard let handler = link.handler else { return }
        request(
            shouldSubscribe ? .shardChannel : .shardUnsubscribe, [shouldSubscribe ? "SSUBSCRIBE" : "SUNSUBSCRIBE", channel],
            by: handler)
    }

    /// Connects, and keeps the subscriptions up until `close`.
    package func start() {
        link.start()
    }

    /// Ends the subscriptions permanently.
    package func close() -> EventLoopFuture<Void> {
        check?.cancel()
        check = nil
        return link.close()
    }

    private func subscribe(on handler: RedisChannelHandler) {
        handler.onPush = { [weak self] in self?.receive($0) }
        requests = []
        // A server that does not report the client ID does not support tracking either.
        if receivesInvalidations { handler.send(ClientID()) { [weak self] in self?.clientID = try? $0.get() } }
        requestSubscriptions(by: handler)
        scheduleCheck(of: handler)
    }

    private func requestSubscriptions(by handler: RedisChannelHandler) {
        isRefused = false
        if !channels.isEmpty { request(.channels, ["SUBSCRIBE"] + channels, by: handler) }
        if receivesInvalidations { request(.invalidations, ["SUBSCRIBE", Self.invalidations], by: handler) }
        // One request per channel, because the channels may belong to different hash slots.
        for channel in shardChannels { request(.shardChannel, ["SSUBSCRIBE", channel], by: handler) }
    }

    private func request(_ kind: Request.Kind, _ arguments: [String], by handler: RedisChannelHandler) {
        requests.append(Request(kind: kind, channels: Array(arguments.dropFirst())))
        handler.sendWithoutReply(arguments)
    }

    /// Records the confirmation of one channel of a request.
    /// - Returns: whether a request for the channel was pending.
    @discardableResult
    private func confirm(_ confirmation: String, of channel: String) -> Bool {
        let index = requests.firstIndex { $0.kind.confirmation == confirmation && $0.channels.contains(channel) }
        guard let index else { return false }
        requests[index].channels.removeAll { $0 == channel }
        guard requests[index].channels.isEmpty else { return true }
        if requests.remove(at: index).kind == .channels {
            isSubscribed = true
            onSubscribed?()
        }
        return true
    }

    /// Drops the request that an error answers: the first pending request, or, if the error is a redirection, the first
    /// request for a shard channel.
    private func dropRequest(refusedWith error: RedisError) {
        guard case .server(let condition) = error.code else { return }
        let index = requests.firstIndex { request in
            switch request.kind {
            case .shardChannel, .shardUnsubscribe: true
            case .channels, .unsubscribe, .invalidations: !condition.isRedirection
            }
        }
        guard let index else { return }
        switch requests.remove(at: index).kind {
        case .channels:
            isRefused = true
            onDown?(error, address)
        // Either the hash slot has moved, or the server has no shard channels and messages arrive on the plain channel.
        case .shardChannel:
            if condition == .noPermission || error.message.contains("unknown command") { onShardChannelsUnsupported?() }
        case .invalidations, .unsubscribe, .shardUnsubscribe: break
        }
    }

    private func scheduleCheck(of handler: RedisChannelHandler) {
        check = link.eventLoop.assumeIsolated().scheduleTask(in: checkInterval) { [weak self, weak handler] in
            guard let self, let handler else { return }
            guard handler.timeSinceLastRead < self.checkInterval + self.checkInterval else {
                return handler.close(reason: RedisError(.replyLost, "Redis was silent on a subscription for too long"))
            }
            if self.isRefused { self.requestSubscriptions(by: handler) } else { handler.sendWithoutReply(["PING"]) }
            self.scheduleCheck(of: handler)
        }
    }

    private func receive(_ reply: RedisReply) {
        if case .error(let error) = reply { return dropRequest(refusedWith: error) }
        guard let parts = reply.array, parts.count == 3, let kind = parts[0].text else { return }
        switch kind {
        case "message" where parts[1].text == Self.invalidations:
            onInvalidated?(parts[2].array?.compactMap(\.text))
        case "message", "smessage":
            guard let channel = parts[1].text, case .bulk(let payload) = parts[2] else { return }
            onMessage?(channel, payload)
        case "subscribe" where parts[1].text == Self.invalidations:
            confirm(kind, of: Self.invalidations)
            if let clientID { onReceivingInvalidations?(clientID, address) }
        case "subscribe", "ssubscribe", "unsubscribe":
            if let channel = parts[1].text { confirm(kind, of: channel) }
        case "sunsubscribe":
            // If no request was pending, the server ended the subscription, because the hash slot has moved.
            if let channel = parts[1].text, !confirm(kind, of: channel) { shardChannels.removeAll { $0 == channel } }
        default:
            break
        }
    }
}
