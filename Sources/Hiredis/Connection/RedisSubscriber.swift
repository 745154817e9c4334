package import NIOCore

/// A connection of its own for subscriptions, kept up as the pipeline's is. Confined to its event loop.
///
/// Pub/sub loses what is published while the connection is down: `onSubscribed` tells when to read again.
package final class RedisSubscriber: RedisListener {
    private let link: RedisLink
    private let address: RedisConfiguration.Address
    private var channels: [String]
    private let checkInterval: TimeAmount
    private var confirmed = 0
    /// The server answered the subscription with an error; it is asked again with the next check.
    private var isRefused = false
    private var check: Scheduled<Void>?

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
    /// Called when the connection is up, before anything is subscribed.
    var onUp: (() -> Void)?

    /// - Parameters:
    ///   - channels: none: it hears invalidations only.
    ///   - hearsInvalidations: see `onInvalidated`.
    ///   - directory: names the server, and another one later; `nil`: it is the configuration's.
    ///   - checkInterval: how often the peer is asked for a sign of life; after two without one the connection is given up.
    package init(
        configuration: RedisConfiguration,
        channels: [String],
        hearsInvalidations: Bool = false,
        environment: RedisEnvironment,
        directory: (any RedisDirectory)? = nil,
        checkInterval: Duration = RedisSubscriber.defaultCheckInterval
    ) {
        address = configuration.address
        self.channels = channels
        self.hearsInvalidations = hearsInvalidations
        self.checkInterval = TimeAmount(checkInterval)
        link = RedisLink(configuration: configuration, environment: environment, directory: directory)
        link.onUp = { [weak self] in
            self?.onUp?()
            self?.subscribe(on: $0)
        }
        link.onDown = { [weak self] error in
            guard let self else { return }
            check?.cancel()
            check = nil
            clientID = nil
            onDown?(error, address)
        }
    }

    deinit {
        link.closeWhenDropped()
    }

    var isUp: Bool { link.handler?.isOpen ?? false }

    /// Hears these channels from now on, and none before: it had none.
    func hear(_ channels: [String]) {
        self.channels = channels
        confirmed = 0
        if !channels.isEmpty { link.handler?.sendWithoutReply(["SUBSCRIBE"] + channels) }
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
        // A server that does not say has no tracking to offer.
        if hearsInvalidations { handler.send(ClientID()) { [weak self] in self?.clientID = try? $0.get() } }
        requestSubscriptions(by: handler)
        scheduleCheck(of: handler)
    }

    private func requestSubscriptions(by handler: RedisChannelHandler) {
        confirmed = 0
        isRefused = false
        if !channels.isEmpty { handler.sendWithoutReply(["SUBSCRIBE"] + channels) }
        if hearsInvalidations { handler.sendWithoutReply(["SUBSCRIBE", Self.invalidations]) }
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
        if case .error(let error) = reply {
            // What was asked for first is answered first.
            guard confirmed < channels.count else { return }
            isRefused = true
            onDown?(error, address)
            return
        }
        guard let parts = reply.array, let kind = parts.first?.text else { return }
        switch kind {
        case "message" where parts.count == 3 && parts[1].text == Self.invalidations:
            onInvalidated?(parts[2].array?.compactMap(\.text))
        case "message" where parts.count == 3:
            guard let channel = parts[1].text, case .bulk(let payload) = parts[2] else { return }
            onMessage?(channel, payload)
        case "subscribe" where parts.count == 3 && parts[1].text == Self.invalidations:
            if let clientID { onHearingInvalidations?(clientID, address) }
        case "subscribe":
            confirmed += 1
            if confirmed == channels.count { onSubscribed?() }
        default:
            break
        }
    }
}
