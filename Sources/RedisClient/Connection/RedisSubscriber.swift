package import NIOCore

/// A connection of its own for subscriptions, kept up as the pipeline's is. Confined to its event loop.
///
/// Pub/sub loses what is published while the connection is down: `onSubscribed` tells when to read again.
package final class RedisSubscriber: RedisListener {
    private let link: RedisLink
    private let address: RedisConfiguration.Address
    /// What its certificate is checked against; `nil`: its address.
    let serverName: String?
    private var channels: [String]
    /// Of a server of a cluster: channels that belong to its slots.
    private var shardChannels: [String] = []
    private let checkInterval: TimeAmount
    /// What was asked for and is not confirmed yet, in its order.
    private var requests: [Request] = []
    /// Whether all channels are subscribed.
    package private(set) var isFollowing = false
    /// The server answered the subscription with an error; it is asked again with the next check.
    private var isRefused = false
    private var check: Scheduled<Void>?

    private struct Request {
        enum Kind {
            case channels, leave, invalidations, shardChannel, leaveShard

            /// What the server confirms it with.
            var confirmation: String {
                switch self {
                case .channels, .invalidations: "subscribe"
                case .leave: "unsubscribe"
                case .shardChannel: "ssubscribe"
                case .leaveShard: "sunsubscribe"
                }
            }
        }

        var kind: Kind
        /// Those whose confirmation is to come.
        var channels: [String]
    }

    /// The channel on which the server tells which keys that another connection tracks were changed.
    package static let invalidations = "__redis__:invalidate"

    /// How often the peer is asked for a sign of life unless another interval is given.
    package static let defaultCheckInterval = Duration.seconds(5)

    private let hearsInvalidations: Bool
    /// What the server calls the connection.
    private var clientID: Int64?

    /// Called when another connection's tracking can be redirected to this one, with what the server calls it. A server
    /// that refuses this does not refuse the subscriptions with it.
    package var onHearingInvalidations: ((_ client: Int64, _ server: RedisConfiguration.Address) -> Void)?
    /// Called with the keys that were changed, of those that are tracked for this connection; `nil`: all of them.
    package var onInvalidated: ((_ keys: [String]?) -> Void)?
    /// Called with each message: the channel and the payload.
    package var onMessage: ((_ channel: String, _ payload: [UInt8]) -> Void)?
    /// Called when all channels are subscribed: the first time, and after each loss.
    package var onSubscribed: (() -> Void)?
    /// Called when the connection is lost, an attempt fails, or the server refuses the subscription.
    package var onDown: ((_ error: RedisError, _ server: RedisConfiguration.Address) -> Void)?
    /// Called when the connection is up, and everything is asked for.
    var onUp: (() -> Void)?
    /// Called when the server knows no channels of shards, or does not allow them.
    var onNoShards: (() -> Void)?

    /// - Parameters:
    ///   - channels: none: it hears invalidations only.
    ///   - hearsInvalidations: see `onInvalidated`.
    ///   - checkInterval: how often the peer is asked for a sign of life; after two without one the connection is given up.
    package convenience init(
        configuration: RedisConfiguration,
        channels: [String],
        hearsInvalidations: Bool = false,
        environment: RedisEnvironment,
        checkInterval: Duration = RedisSubscriber.defaultCheckInterval
    ) {
        self.init(
            configuration: configuration, channels: channels, hearsInvalidations: hearsInvalidations, environment: environment,
            directory: nil, checkInterval: checkInterval)
    }

    /// - Parameter directory: names the server, which may change; `nil` for the one in the configuration.
    init(
        configuration: RedisConfiguration, channels: [String], hearsInvalidations: Bool, environment: RedisEnvironment,
        directory: (any RedisDirectory)?, checkInterval: Duration = RedisSubscriber.defaultCheckInterval
    ) {
        address = configuration.address
        serverName = configuration.serverName
        self.channels = channels
        self.hearsInvalidations = hearsInvalidations
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
            isFollowing = false
            onDown?(error, address)
        }
    }

    deinit {
        link.closeWhenDropped()
    }

    var isUp: Bool { link.handler?.isOpen ?? false }

    /// Hears these channels from now on, and no others.
    func hear(_ channels: [String]) {
        let former = self.channels
        self.channels = channels
        isRefused = false
        isFollowing = false
        guard let handler = link.handler else { return }
        if !former.isEmpty { request(.leave, ["UNSUBSCRIBE"] + former, by: handler) }
        if !channels.isEmpty { request(.channels, ["SUBSCRIBE"] + channels, by: handler) }
    }

    /// Hears a channel of one of the server's slots, or does so no more.
    package func hear(shardChannel channel: String, _ isHeard: Bool) {
        guard shardChannels.contains(channel) != isHeard else { return }
        if isHeard { shardChannels.append(channel) } else { shardChannels.removeAll { $0 == channel } }
        guard let handler = link.handler else { return }
        request(isHeard ? .shardChannel : .leaveShard, [isHeard ? "SSUBSCRIBE" : "SUNSUBSCRIBE", channel], by: handler)
    }

    /// Begins to connect and keeps the subscriptions up until `close`.
    package func start() {
        link.start()
    }

    /// Ends the subscriptions for good.
    package func close() -> EventLoopFuture<Void> {
        check?.cancel()
        check = nil
        return link.close()
    }

    private func subscribe(on handler: RedisChannelHandler) {
        handler.onPush = { [weak self] in self?.receive($0) }
        requests = []
        // A server that does not say has no tracking to offer.
        if hearsInvalidations { handler.send(ClientID()) { [weak self] in self?.clientID = try? $0.get() } }
        requestSubscriptions(by: handler)
        scheduleCheck(of: handler)
    }

    private func requestSubscriptions(by handler: RedisChannelHandler) {
        isRefused = false
        if !channels.isEmpty { request(.channels, ["SUBSCRIBE"] + channels, by: handler) }
        if hearsInvalidations { request(.invalidations, ["SUBSCRIBE", Self.invalidations], by: handler) }
        // One by one: they are of several slots.
        for channel in shardChannels { request(.shardChannel, ["SSUBSCRIBE", channel], by: handler) }
    }

    private func request(_ kind: Request.Kind, _ words: [String], by handler: RedisChannelHandler) {
        requests.append(Request(kind: kind, channels: Array(words.dropFirst())))
        handler.sendWithoutReply(words)
    }

    /// A request is confirmed, for one of its channels.
    /// - Returns: whether anybody asked for it.
    @discardableResult
    private func confirm(_ confirmation: String, of channel: String) -> Bool {
        let place = requests.firstIndex { $0.kind.confirmation == confirmation && $0.channels.contains(channel) }
        guard let place else { return false }
        requests[place].channels.removeAll { $0 == channel }
        guard requests[place].channels.isEmpty else { return true }
        if requests.remove(at: place).kind == .channels {
            isFollowing = true
            onSubscribed?()
        }
        return true
    }

    /// What was asked for first is answered first; and only what is of a slot is sent elsewhere.
    private func refuse(_ error: RedisError) {
        guard case .server(let condition) = error.code else { return }
        let place = requests.firstIndex { request in
            switch request.kind {
            case .shardChannel, .leaveShard: true
            case .channels, .leave, .invalidations: !condition.isRedirection
            }
        }
        guard let place else { return }
        switch requests.remove(at: place).kind {
        case .channels:
            isRefused = true
            onDown?(error, address)
        // The slot is another server's by now, or there are none: the channel is told everywhere too.
        case .shardChannel:
            if condition == .noPermission || error.message.contains("unknown command") { onNoShards?() }
        case .invalidations, .leave, .leaveShard: break
        }
    }

    private func scheduleCheck(of handler: RedisChannelHandler) {
        check = link.eventLoop.assumeIsolated().scheduleTask(in: checkInterval) { [weak self, weak handler] in
            guard let self, let handler else { return }
            guard handler.timeSinceLastRead < self.checkInterval + self.checkInterval else {
                return handler.close(reason: RedisError(.answerLost, "Redis gave no sign of life to a subscription"))
            }
            if self.isRefused { self.requestSubscriptions(by: handler) } else { handler.sendWithoutReply(["PING"]) }
            self.scheduleCheck(of: handler)
        }
    }

    private func receive(_ reply: RedisReply) {
        if case .error(let error) = reply { return refuse(error) }
        guard let parts = reply.array, parts.count == 3, let kind = parts[0].text else { return }
        switch kind {
        case "message" where parts[1].text == Self.invalidations:
            onInvalidated?(parts[2].array?.compactMap(\.text))
        case "message", "smessage":
            guard let channel = parts[1].text, case .bulk(let payload) = parts[2] else { return }
            onMessage?(channel, payload)
        case "subscribe" where parts[1].text == Self.invalidations:
            confirm(kind, of: Self.invalidations)
            if let clientID { onHearingInvalidations?(clientID, address) }
        case "subscribe", "ssubscribe", "unsubscribe":
            if let channel = parts[1].text { confirm(kind, of: channel) }
        case "sunsubscribe":
            // By the server itself if nobody has asked: the slot has gone.
            if let channel = parts[1].text, !confirm(kind, of: channel) { shardChannels.removeAll { $0 == channel } }
        default:
            break
        }
    }
}
