internal import DequeModule
internal import HummingbirdCore
internal import Interlock
internal import Logging
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOHTTP1

/// A connection of the HTTP door, whose requests are answered on the event loop that its bytes arrive on: within a request no
/// thread changes but for the hop to the coordinator.
struct HTTPDoorChannel: ServerChildChannel {
    struct Value: ServerChildChannelValue {
        let base: HTTP1Channel.Value
        let place: HTTPPlaces.Place
        var channel: any Channel { base.channel }
    }

    let places: HTTPPlaces
    /// `nil`: it does not speak TLS.
    let certificate: DoorCertificate?
    /// Serves whoever has a place.
    let ordinary: HTTP1Channel
    /// Serves whoever has one of those that are kept.
    let kept: HTTP1Channel

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        let place = places.take()
        channel.closeFuture.whenComplete { _ in places.leave() }
        return channel.eventLoop.makeCompletedFuture {
            try certificate?.secure(channel)
        }.flatMap {
            base(of: place).setup(channel: channel, logger: logger)
        }.flatMapThrowing { base in
            let pipeline = channel.pipeline.syncOperations
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            try pipeline.addHandler(FormerHTTPHandler(), position: .after(decoder))
            return Value(base: base, place: place)
        }
    }

    func handle(value: Value, logger: Logger) async {
        await withTaskExecutorPreference(EventLoopTaskExecutor(eventLoop: value.channel.eventLoop)) {
            await base(of: value.place).handle(value: value.base, logger: logger)
        }
    }

    private func base(of place: HTTPPlaces.Place) -> HTTP1Channel {
        switch place {
        case .ordinary: ordinary
        case .kept: kept
        }
    }
}

/// The connections that the HTTP door may have at a time, and a few more by which it still says how it is.
final class HTTPPlaces: Sendable {
    enum Place: Sendable {
        case ordinary
        /// All others are taken.
        case kept
    }

    /// So many more than `listen.max_connections` are accepted, for health and metrics.
    private static let kept = 16

    private let count: Int
    private let taken = NIOLockedValueBox(0)

    init(count: Int) {
        self.count = count
    }

    /// The most connections there can be.
    var capacity: Int { count + Self.kept }

    fileprivate func take() -> Place {
        taken.withLockedValue { taken in
            taken += 1
            return taken > count ? .kept : .ordinary
        }
    }

    fileprivate func leave() { taken.withLockedValue { $0 -= 1 } }
}

/// Closes a connection that has not brought the head of a first request in time: the place is wanted by others.
final class FirstRequestDeadline: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private let timeout: TimeAmount
    private var alarm: Scheduled<Void>?

    init(timeout: TimeAmount) {
        self.timeout = timeout
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let channel = context.channel
        alarm = channel.eventLoop.scheduleTask(in: timeout) { channel.close(promise: nil) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        alarm?.cancel()
        context.fireChannelRead(data)
        context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        alarm?.cancel()
        context.fireChannelInactive()
    }
}

/// Answers HTTP/1.0 as that is understood (RFC 9112, section 9.3): nothing in chunks, and the end of the connection is the end of
/// the answer, as if the client had asked for that.
private final class FormerHTTPHandler: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    typealias InboundOut = HTTPServerRequestPart

    /// Of each request that is not answered to its end.
    private var areFormer: Deque<Bool> = []

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = unwrapInboundIn(data) else { return context.fireChannelRead(data) }
        let isFormer = head.version == .http1_0
        areFormer.append(isFormer)
        if isFormer { head.headers.replaceOrAdd(name: "Connection", value: "close") }
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let part = unwrapOutboundIn(data)
        guard areFormer.first == true else {
            if case .end = part { _ = areFormer.popFirst() }
            return context.write(data, promise: promise)
        }
        switch part {
        case .head(let head) where head.status.code < 200:
            // That has none.
            promise?.succeed()
        case .head(var head):
            head.version = .http1_0
            head.headers.replaceOrAdd(name: "Connection", value: "close")
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body:
            context.write(data, promise: promise)
        case .end:
            areFormer.removeFirst()
            context.write(data, promise: promise)
        }
    }
}
