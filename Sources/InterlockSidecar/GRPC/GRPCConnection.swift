internal import InterlockHTTP
internal import NIOCore
internal import NIOHPACK
internal import NIOHTTP1
internal import NIOHTTP2

/// One client of the gRPC door (gRPC over HTTP2). The frames of all its streams come here: a channel for each would cost as much as
/// the decision that it asks for. Confined to the coordinator's event loop.
final class GRPCConnection: ChannelDuplexHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    /// Of one message, in bytes.
    static let longestMessage = 1 << 20
    /// Of all messages that have come in part, in bytes.
    static let mostReceived = 4 << 20
    private static let mostStreams = 256
    /// Of one call that is told piece by piece, of what has not left yet.
    private static let mostUnsent = 64
    /// Of a message: whether it is compressed, and its length.
    private static let prefixLength = 5
    /// A call whose message does not come is given up after so long, and looked for as often.
    private static let patience = TimeAmount.seconds(10)

    private struct Stream {
        /// `nil`: its call is over, and its end is awaited.
        var call: GRPCCall?
        var received = ByteBuffer()
        /// The client sends no more of it.
        var isRead = false
        /// The answer's head is written.
        var hasBegun = false
        /// Takes the messages of a call that has many.
        var reader: (any GRPCRequestStream)?
        /// How many messages of the answer have not left.
        var unsent = 0
        var whenGivenUp: (() -> Void)?
        var whenGoingDown: (() -> Void)?
    }

    private let door: GRPCDoorContext
    private let breakage = HTTP2Breakage()
    private var context: ChannelHandlerContext?
    private var streams: [HTTP2StreamID: Stream] = [:]
    private var lastStream = HTTP2StreamID.rootStream
    /// In bytes, of all streams.
    private var received = 0
    private var alarm: LazyAlarm?
    private var isFlushPlanned = false
    /// No further call is taken.
    private(set) var isGoingDown = false
    /// It closes when all is written.
    private var isEnding = false
    private var isIdle = true

    private init(door: GRPCDoorContext) {
        self.door = door
    }

    private static let settings: HTTP2Settings = [
        HTTP2Setting(parameter: .maxConcurrentStreams, value: mostStreams),
        HTTP2Setting(parameter: .maxHeaderListSize, value: HTTPDoorContext.limits.maxHeaderListSize),
        HTTP2Setting(parameter: .initialWindowSize, value: longestMessage + prefixLength),
    ]

    /// Puts between a connection's bytes and their meaning what stands there.
    static func begin(on channel: any Channel, door: GRPCDoorContext) throws -> GRPCConnection {
        let connection = GRPCConnection(door: door)
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(UnreadAnswerGate(patience: door.unreadTimeout))
        try pipeline.addHandler(
            NIOHTTP2Handler(
                mode: .server, frameDelegate: connection.breakage, connectionConfiguration: HTTPProtocol.connection(settings),
                streamConfiguration: HTTPProtocol.streams(mostResets: HTTP2Peer.mostResets)))
        try pipeline.addHandler(connection)
        return connection
    }

    /// The host of the client.
    var address: String { context?.remoteAddress?.ipAddress ?? "" }

    // MARK: Frames

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        switch frame.payload {
        case .headers(let headers): head(headers, frame.streamID)
        case .data(let data):
            if case .byteBuffer(let bytes) = data.data { message(bytes, frame.streamID, isLast: data.endStream) }
        case .rstStream: giveUp(frame.streamID)
        default: break
        }
    }

    private func head(_ head: HTTP2Frame.FramePayload.Headers, _ id: HTTP2StreamID) {
        guard streams[id] == nil else {
            // What stands behind a message says nothing here.
            if head.endStream { message(ByteBuffer(), id, isLast: true) }
            return
        }
        lastStream = max(lastStream, id)
        isIdle = false
        let path = head.headers.first(name: ":path") ?? ""
        let method = door.methods[path] ?? door.unknownMethod
        let call = GRPCCall(connection: self, stream: id, method: method, began: .now())
        streams[id] = Stream(call: call, isRead: head.endStream)
        if streams.count == 1 { alarm?.set(.now() + Self.patience) }
        guard GRPCStatus.isSpoken(in: head.headers.first(name: "content-type")) else {
            return refuse(id, httpStatus: "415")
        }
        guard method !== door.unknownMethod else { return call.fail(.unimplemented, "there is no method \(path) here") }
        guard door.admits(head.headers, from: context?.remoteAddress) else {
            return call.fail(.unauthenticated, "show an API key, as authorization: Bearer KEY")
        }
        if isGoingDown { return call.failGoingDown() }
        if case .stream(let begin) = method.handler {
            let reader = begin(call)
            streams[id]?.reader = reader
        }
        if head.endStream { message(ByteBuffer(), id, isLast: true) }
    }

    private func message(_ bytes: ByteBuffer, _ id: HTTP2StreamID, isLast: Bool) {
        guard let place = streams.index(forKey: id), let call = streams.values[place].call else { return }
        if isLast { streams.values[place].isRead = true }
        received += bytes.readableBytes
        var bytes = bytes
        if streams.values[place].received.readableBytes == 0 {
            streams.values[place].received = bytes
        } else {
            streams.values[place].received.discardReadBytes()
            streams.values[place].received.writeBuffer(&bytes)
        }
        guard received <= Self.mostReceived else {
            return call.fail(.resourceExhausted, "the messages of this connection that have come in part are too large together")
        }
        switch call.method.handler {
        case .message(let handle):
            let whole = streams.values[place].received
            guard let length = announced(whole, call), isLast else { return }
            guard whole.readableBytes == Self.prefixLength + length else {
                return call.fail(.invalidArgument, "the call has to have one message, and the whole of it")
            }
            release(place)
            var message = whole
            message.moveReaderIndex(forwardBy: Self.prefixLength)
            handle(call, message)
        case .stream: handOver(call, isLast: isLast)
        }
    }

    /// How long the message is that begins what has come; `nil`: it is not taken, and its call has failed.
    private func announced(_ whole: ByteBuffer, _ call: GRPCCall) -> Int? {
        guard whole.readableBytes >= Self.prefixLength else { return 0 }
        guard whole.getInteger(at: whole.readerIndex, as: UInt8.self) == 0 else {
            call.fail(.unimplemented, "messages are taken uncompressed only")
            return nil
        }
        let length = Int(whole.getInteger(at: whole.readerIndex + 1, as: UInt32.self) ?? 0)
        guard length <= Self.longestMessage else {
            call.fail(.resourceExhausted, "a message has at most \(Self.longestMessage) bytes")
            return nil
        }
        return length
    }

    /// To a call of many messages, those that are whole.
    private func handOver(_ call: GRPCCall, isLast: Bool) {
        while let place = streams.index(forKey: call.stream), streams.values[place].call != nil,
            let reader = streams.values[place].reader
        {
            var rest = streams.values[place].received
            guard let length = announced(rest, call) else { return }
            guard rest.readableBytes >= Self.prefixLength + length else {
                guard isLast else { return }
                return rest.readableBytes == 0
                    ? reader.ended() : call.fail(.invalidArgument, "the call ended within a message")
            }
            rest.moveReaderIndex(forwardBy: Self.prefixLength)
            guard let message = rest.readSlice(length: length) else { return }
            received -= Self.prefixLength + length
            streams.values[place].received = rest
            reader.received(message)
        }
    }

    /// Of what has come is nothing kept.
    private func release(_ place: Dictionary<HTTP2StreamID, Stream>.Index) {
        received -= streams.values[place].received.readableBytes
        streams.values[place].received = ByteBuffer()
    }

    /// The client may go on sending, whatever became of what it sent: what is kept of it is bounded by `mostReceived`.
    private func replenish(window: Int, of id: HTTP2StreamID) {
        guard window <= Self.window / 2, id == .rootStream || streams[id]?.reader != nil else { return }
        write(.windowUpdate(windowSizeIncrement: Self.window - window), id)
    }

    /// How much a client may have on its way, in bytes, in all and on a stream of many messages.
    private static let window = 1 << 20

    // MARK: Answers

    private static let goodHead = HPACKHeaders([(":status", "200"), ("content-type", "application/grpc")])
    private static let good = HPACKHeaders([("grpc-status", "0")])

    /// The one message of an answer, and the end of the call.
    func answer(_ call: GRPCCall, _ message: some GRPCMessage) {
        guard write(message, of: call, told: nil) else { return }
        write(.headers(.init(headers: Self.good, endStream: true)), call.stream)
        ended(call, .ok)
    }

    /// A message of an answer that goes on.
    func tell(_ call: GRPCCall, _ message: some GRPCMessage) {
        guard let context, let unsent = streams[call.stream]?.unsent else { return }
        guard unsent < Self.mostUnsent else {
            // It opens no window for them.
            write(.rstStream(.enhanceYourCalm), call.stream)
            return giveUp(call.stream)
        }
        streams[call.stream]?.unsent += 1
        let told = context.eventLoop.makePromise(of: Void.self)
        told.futureResult.assumeIsolated().whenComplete { [self] _ in streams[call.stream]?.unsent -= 1 }
        if !write(message, of: call, told: told) { told.succeed() }
    }

    /// - Returns: whether it is awaited.
    private func write(_ message: some GRPCMessage, of call: GRPCCall, told: EventLoopPromise<Void>?) -> Bool {
        guard isAwaited(call), let context, let place = streams.index(forKey: call.stream) else { return false }
        var buffer = context.channel.allocator.buffer(capacity: 128)
        buffer.writeInteger(UInt8(0))
        buffer.writeInteger(UInt32(0))
        do {
            try message.write(to: &buffer)
        } catch {
            end(call, .internal, "the answer could not be written")
            return false
        }
        buffer.setInteger(UInt32(buffer.readableBytes - Self.prefixLength), at: buffer.readerIndex + 1)
        if !streams.values[place].hasBegun {
            streams.values[place].hasBegun = true
            write(.headers(.init(headers: Self.goodHead)), call.stream)
        }
        write(.data(.init(data: .byteBuffer(buffer))), call.stream, told)
        return true
    }

    /// The end of a call that has no answer, or no further one.
    func end(_ call: GRPCCall, _ status: GRPCStatus, _ message: String) {
        guard isAwaited(call), let stream = streams[call.stream] else { return }
        var headers = stream.hasBegun ? HPACKHeaders() : Self.goodHead
        headers.add(name: "grpc-status", value: "\(status.rawValue)")
        if !message.isEmpty { headers.add(name: "grpc-message", value: GRPCStatus.encoded(message)) }
        write(.headers(.init(headers: headers, endStream: true)), call.stream)
        ended(call, status)
    }

    /// It is no call of gRPC.
    private func refuse(_ id: HTTP2StreamID, httpStatus: String) {
        write(.headers(.init(headers: HPACKHeaders([(":status", httpStatus)]), endStream: true)), id)
        cut(id)
    }

    func isAwaited(_ call: GRPCCall) -> Bool { context != nil && streams[call.stream]?.call != nil }

    private func ended(_ call: GRPCCall, _ status: GRPCStatus) {
        call.method.counters.answered(status, since: call.began)
        // Before anything more is written: what that brings about is not the caller's doing.
        streams[call.stream]?.call = nil
        streams[call.stream]?.reader = nil
        streams[call.stream]?.whenGivenUp = nil
        streams[call.stream]?.whenGoingDown = nil
        cut(call.stream)
    }

    /// A stream whose answer is written: it ends here when its request has been read, else the client is told to send no more of it.
    private func cut(_ id: HTTP2StreamID) {
        if streams[id]?.isRead == false { write(.rstStream(.noError), id) }
        over(id)
    }

    private func over(_ id: HTTP2StreamID) {
        guard let place = streams.index(forKey: id) else { return }
        release(place)
        streams.remove(at: place)
        guard streams.isEmpty else { return }
        if isGoingDown { return endGently() }
        isIdle = true
        alarm?.set(.now() + door.idleTimeout)
    }

    private func write(
        _ payload: HTTP2Frame.FramePayload, _ id: HTTP2StreamID, _ promise: EventLoopPromise<Void>? = nil
    ) {
        context?.write(wrapOutboundOut(HTTP2Frame(streamID: id, payload: payload)), promise: promise)
        planFlush()
    }

    private func planFlush() {
        guard !isFlushPlanned else { return }
        isFlushPlanned = true
        door.planFlush(of: self)
    }

    /// What was written in this tick leaves.
    func flush() {
        isFlushPlanned = false
        context?.flush()
    }

    // MARK: Giving up

    func whenGivenUp(_ id: HTTP2StreamID, _ action: @escaping () -> Void) { streams[id]?.whenGivenUp = action }
    func whenGoingDown(_ id: HTTP2StreamID, _ action: @escaping () -> Void) { streams[id]?.whenGoingDown = action }

    private func giveUp(_ id: HTTP2StreamID) {
        guard let stream = streams[id] else { return }
        stream.whenGivenUp?()
        stream.call?.method.counters.answered(.cancelled, since: stream.call?.began ?? .now())
        over(id)
    }

    private func timeIsOver() {
        if isEnding {
            context?.close(promise: nil)
            return
        }
        if isIdle { return endGently() }
        let limit = NIODeadline.now() - Self.patience
        for (id, stream) in streams where !stream.isRead && stream.reader == nil {
            guard let call = stream.call, call.began <= limit else { continue }
            call.fail(
                .deadlineExceeded, "the call's message did not come within \(Self.patience.nanoseconds / 1_000_000_000) seconds")
            over(id)
        }
        if !isIdle { alarm?.set(.now() + Self.patience) }
    }

    /// No further call is taken; those under way are answered.
    func goDown() {
        isGoingDown = true
        for id in Array(streams.keys) { streams[id]?.whenGoingDown?() }
        if streams.isEmpty { return endGently() }
        if let context { HTTP2Peer.sayFarewell(on: context, last: lastStream) }
    }

    private func endGently() {
        guard !isEnding else { return }
        isEnding = true
        isGoingDown = true
        alarm?.set(.now() + door.unreadTimeout)
        if let context { HTTP2Peer.endGently(context, last: lastStream) }
    }

    // MARK: Channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        let alarm = LazyAlarm(on: context.eventLoop) { [self] in timeIsOver() }
        self.alarm = alarm
        alarm.set(.now() + door.firstRequestTimeout)
    }

    func handlerRemoved(context: ChannelHandlerContext) { end() }

    func channelInactive(context: ChannelHandlerContext) {
        end()
        context.fireChannelInactive()
    }

    private func end() {
        guard context != nil else { return }
        for id in Array(streams.keys) { giveUp(id) }
        context = nil
        alarm?.cancel()
        alarm = nil
        door.disconnected(self)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed: context.close(promise: nil)
        case let closed as StreamClosedEvent: if closed.reason != nil { giveUp(closed.streamID) }
        case let updated as NIOHTTP2WindowUpdatedEvent:
            if let window = updated.inboundWindowSize { replenish(window: window, of: updated.streamID) }
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if breakage.isMeant(by: error) { context.close(promise: nil) }
    }
}
