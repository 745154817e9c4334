import InterlockCore
import NIOCore
import NIOHPACK
import NIOHTTP2

/// A connection to an upstream that speaks HTTP/2. It handles frames itself, so that it can delay, omit and falsify
/// them.
final class UpstreamHTTP2Connection: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    /// A step of a response.
    private enum Step {
        case send(HTTP2Frame.FramePayload)
        case pause(milliseconds: Int64)
        /// The end of a complete response.
        case end
        case reset(HTTP2ErrorCode)
        case close
    }

    private final class Stream {
        let id: HTTP2StreamID
        let arrival: UpstreamLedger.Arrival
        let behavior: UpstreamBehavior
        var body = ByteBuffer()
        var isRequestComplete = false
        /// Whether the stream has been closed or reset, or is left unprocessed.
        var hasEnded = false

        init(_ id: HTTP2StreamID, _ arrival: UpstreamLedger.Arrival, _ behavior: UpstreamBehavior) {
            self.id = id
            self.arrival = arrival
            self.behavior = behavior
        }
    }

    private let wire: Wire
    private let host: UpstreamHost
    private var random: SeededRandom
    private var context: ChannelHandlerContext?
    /// The open streams, oldest first.
    private var streams: [Stream] = []
    private var requestCount = 0
    /// The stream that began last.
    private var latestID = HTTP2StreamID.rootStream
    /// Whether `GOAWAY` was sent.
    private var isGoingAway = false
    /// The delay of window updates for received bytes, in milliseconds.
    private let windowDelayMilliseconds: Int64

    private init(_ wire: Wire, of host: UpstreamHost, random: SeededRandom) {
        self.wire = wire
        self.host = host
        self.random = random
        windowDelayMilliseconds = [0, 0, 5, 30][Int.random(in: 0..<4, using: &self.random)]
    }

    /// Serves the far end of a wire, which keeps the connection alive.
    static func serve(_ wire: Wire, of host: UpstreamHost, random: SeededRandom, onEnd: @escaping () -> Void) {
        let loop = host.loop
        let connection = UpstreamHTTP2Connection(wire, of: host, random: random)
        let channel = SimulatedChannel(eventLoop: loop)
        wire.far.onBytes = { bytes in loop.enter { channel.receive(bytes) } }
        wire.far.onEnd = { loop.enter { channel.receiveEnd() } }
        channel.onSend = { wire.send($0, to: wire.near) }
        channel.onClose = {
            wire.close(to: wire.near)
            // The closures retain the channel.
            wire.far.onBytes = { _ in }
            wire.far.onEnd = {}
            onEnd()
        }
        loop.enter {
            // Safe to ignore: adding handlers cannot fail, because the channel and its handlers are new.
            try? channel.pipeline.syncOperations.addHandlers(connection.protocolHandler(), connection)
            channel.activate()
        }
    }

    /// Creates the HTTP/2 handler. It has no rate limits on control frames, because NIO measures them by the real
    /// clock.
    private func protocolHandler() -> NIOHTTP2Handler {
        let windows = [1024, 16_384, 65_535, 65_535]
        let maximumStreams = [1, 4, 100, 100]
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [
            HTTP2Setting(parameter: .maxConcurrentStreams, value: maximumStreams[Int.random(in: 0..<4, using: &random)]),
            HTTP2Setting(parameter: .initialWindowSize, value: windows[Int.random(in: 0..<4, using: &random)]),
        ]
        connection.contentLengthValidation = .disabled
        connection.maximumRecentlyResetStreams = 4096
        connection.maximumConnectionGlitches = .max
        connection.controlFrameRateLimit.maximumCount = .max
        var streams = NIOHTTP2Handler.StreamConfiguration()
        streams.streamResetFrameRateLimit.maximumCount = .max
        streams.streamErrorRateLimit.maximumCount = .max
        return NIOHTTP2Handler(mode: .server, connectionConfiguration: connection, streamConfiguration: streams)
    }

    /// Runs `body` in the process after this many milliseconds, if the connection is still open.
    private func schedule(afterMilliseconds milliseconds: Int64, _ body: @escaping () -> Void) {
        host.timeline.schedule(in: .milliseconds(milliseconds)) { [self] in
            guard context != nil else { return }
            host.loop.enter(body)
        }
    }

    // MARK: Channel

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { connectionEnded() }
    func channelInactive(context: ChannelHandlerContext) { connectionEnded() }

    func channelActive(context: ChannelHandlerContext) {
        // The connection needs a large window: NIO drops bytes that arrive on a stream after its reset, and they cause
        // no window update.
        write(.windowUpdate(windowSizeIncrement: 1 << 24), .rootStream)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { close() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        let stream = streams.first { $0.id == frame.streamID }
        switch frame.payload {
        case .headers(let head):
            // Headers after a body are trailers.
            guard let stream else { return begin(frame.streamID, head) }
            if head.endStream { finish(stream) }
        case .data(let data):
            guard case .byteBuffer(let bytes) = data.data else { return }
            openWindows(by: bytes.readableBytes, stream)
            stream?.body.writeImmutableBuffer(bytes)
            if data.endStream, let stream { finish(stream) }
        case .rstStream: streamClosed(frame.streamID)
        default: break
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let event = event as? StreamClosedEvent { streamClosed(event.streamID) }
    }

    private func streamClosed(_ id: HTTP2StreamID) {
        guard let index = streams.firstIndex(where: { $0.id == id }) else { return }
        streams.remove(at: index).hasEnded = true
    }

    private func connectionEnded() {
        context = nil
        for stream in streams { stream.hasEnded = true }
        streams = []
    }

    private func close() { context?.close(promise: nil) }

    private func write(_ payload: HTTP2Frame.FramePayload, _ id: HTTP2StreamID) {
        guard let context else { return }
        context.writeAndFlush(wrapOutboundOut(HTTP2Frame(streamID: id, payload: payload)), promise: nil)
    }

    private func openWindows(by count: Int, _ stream: Stream?) {
        guard count > 0 else { return }
        schedule(afterMilliseconds: windowDelayMilliseconds) { [self] in
            write(.windowUpdate(windowSizeIncrement: count), .rootStream)
            guard let stream, !stream.isRequestComplete, streams.contains(where: { $0 === stream }) else { return }
            write(.windowUpdate(windowSizeIncrement: count), stream.id)
        }
    }

    // MARK: Requests

    private func begin(_ id: HTTP2StreamID, _ received: HTTP2Frame.FramePayload.Headers) {
        let fields = received.headers.map { (name: $0.name, value: $0.value) }
        func pseudo(_ name: String) -> String { fields.first { $0.name == name }?.value ?? "" }
        let head = UpstreamRequestHead(
            method: pseudo(":method"), target: pseudo(":path"), fields: fields.filter { !$0.name.hasPrefix(":") })
        requestCount += 1
        let arrival = host.begin(head, over: wire, isReused: requestCount > 1)
        let stream = Stream(id, arrival, host.drawBehavior())
        streams.append(stream)
        latestID = id
        switch stream.behavior.mishap {
        case .closesUnread: return close()
        case .resets(.refused):
            arrival.isUnprocessed = true
            return reset(stream, .refusedStream)
        case .goesAway(leavesUnprocessed: true) where !isGoingAway:
            arrival.isUnprocessed = true
            stream.hasEnded = true
            return goAway(last: Int(id) > 1 ? HTTP2StreamID(Int(id) - 2) : .rootStream)
        case .answersEarly where !received.endStream: respond(stream)
        default: break
        }
        if received.endStream { finish(stream) }
    }

    private func finish(_ stream: Stream) {
        stream.isRequestComplete = true
        let isAnswered = stream.arrival.isExecuted
        host.finish(stream.arrival, body: stream.body)
        if !isAnswered { respond(stream) }
    }

    private func reset(_ stream: Stream, _ code: HTTP2ErrorCode) {
        stream.hasEnded = true
        write(.rstStream(code), stream.id)
    }

    /// Sends `GOAWAY`, and closes the connection after a timeout at the latest.
    private func goAway(last: HTTP2StreamID) {
        isGoingAway = true
        write(.goAway(lastStreamID: last, errorCode: .noError, opaqueData: nil), .rootStream)
        schedule(afterMilliseconds: UpstreamBehavior.closeDelayMilliseconds) { [self] in close() }
    }

    // MARK: Responses

    private func respond(_ stream: Stream) {
        guard !stream.hasEnded else { return }
        stream.arrival.isExecuted = true
        let behavior = stream.behavior
        switch behavior.mishap {
        case .closesUnanswered: advance(stream, [.pause(milliseconds: behavior.delayMilliseconds), .close])
        case .silent: advance(stream, [.pause(milliseconds: UpstreamBehavior.closeDelayMilliseconds), .reset(.cancel)])
        case .resets(let error):
            advance(stream, [.pause(milliseconds: behavior.delayMilliseconds), .reset(HTTP2ErrorCode(error))])
        case .goesAway where !isGoingAway:
            // `GOAWAY` either excludes streams that are in flight, or excludes no streams.
            goAway(last: random.happens(0.5) ? latestID : .maxID)
            advance(stream, steps(stream)[...])
        default: advance(stream, steps(stream)[...])
        }
    }

    private func advance(_ stream: Stream, _ steps: ArraySlice<Step>) {
        var remaining = steps
        while !stream.hasEnded, context != nil, let step = remaining.popFirst() {
            switch step {
            case .pause(milliseconds: 0): break
            case .pause(let milliseconds):
                return schedule(afterMilliseconds: milliseconds) { [self] in advance(stream, remaining) }
            case .send(let payload):
                stream.arrival.hasSent = true
                write(payload, stream.id)
            case .end: host.finishResponse()
            case .reset(let code): reset(stream, code)
            case .close: close()
            }
        }
    }

    private func steps(_ stream: Stream) -> [Step] {
        let behavior = stream.behavior
        let number = stream.arrival.head.number
        var steps = [Step.pause(milliseconds: behavior.delayMilliseconds)]
        for status in behavior.informational {
            steps.append(.send(.headers(.init(headers: [":status": "\(status)", "link": "</\(number)>"]))))
        }
        guard behavior.hasBody(for: stream.arrival.head.method) else {
            let head = head(number, behavior, size: nil)
            if case .resetsInBody(let error) = behavior.mishap {
                return steps + [.send(.headers(.init(headers: head))), .reset(HTTP2ErrorCode(error))]
            }
            return steps + [.send(.headers(.init(headers: head, endStream: true))), .end]
        }
        let body = NumberedBody.make(number, about: behavior.size)
        var size = body.readableBytes
        if case .sendsTooLittle = behavior.mishap { size += Int.random(in: 1...100, using: &random) }
        steps.append(.send(.headers(.init(headers: head(number, behavior, size: size)))))
        return steps + bodySteps(body, stream)
    }

    private func bodySteps(_ body: ByteBuffer, _ stream: Stream) -> [Step] {
        let behavior = stream.behavior
        let parts = body.parts(behavior.parts)
        var steps: [Step] = []
        for (index, part) in parts.enumerated() {
            let isLast = index == parts.count - 1
            if isLast, let ending = abruptEnd(behavior) {
                let half = part.getSlice(at: part.readerIndex, length: (part.readableBytes + 1) / 2) ?? part
                return steps + [.send(.data(.init(data: .byteBuffer(half)))), ending]
            }
            let isEnd = isLast && !behavior.hasTrailers && !isIncomplete(behavior)
            steps.append(.send(.data(.init(data: .byteBuffer(part), endStream: isEnd))))
            if !isLast { steps.append(.pause(milliseconds: behavior.pauseMilliseconds)) }
        }
        if isIncomplete(behavior) {
            return steps + [.pause(milliseconds: UpstreamBehavior.closeDelayMilliseconds), .reset(.cancel)]
        }
        if behavior.hasTrailers { steps.append(.send(.headers(.init(headers: ["x-trailer": "yes"], endStream: true)))) }
        steps.append(.end)
        if case .answersEarly(closes: true) = behavior.mishap, !stream.isRequestComplete { steps.append(.reset(.noError)) }
        return steps
    }

    /// Returns the step that breaks off the response; `nil` if the response is complete.
    private func abruptEnd(_ behavior: UpstreamBehavior) -> Step? {
        switch behavior.mishap {
        case .closesInBody: .close
        case .resetsInBody(let error): .reset(HTTP2ErrorCode(error))
        default: nil
        }
    }

    private func isIncomplete(_ behavior: UpstreamBehavior) -> Bool {
        if case .sendsTooLittle(closes: false) = behavior.mishap { true } else { false }
    }

    private func head(_ number: Int, _ behavior: UpstreamBehavior, size: Int?) -> HPACKHeaders {
        var head: HPACKHeaders = [
            ":status": "\(behavior.status)", NumberedBody.numberField: "\(number)",
            NumberedBody.statusField: "\(behavior.status)",
        ]
        if let retryAfterSeconds = behavior.retryAfterSeconds {
            head.add(name: "retry-after", value: "\(retryAfterSeconds)")
        }
        guard let size else { return head }
        head.add(name: NumberedBody.sizeField, value: "\(size)")
        let declaresLength = if case .sendsTooLittle = behavior.mishap { true } else { behavior.framing == .length }
        if declaresLength { head.add(name: "content-length", value: "\(size)") }
        return head
    }
}

extension HTTP2ErrorCode {
    fileprivate init(_ error: UpstreamBehavior.StreamError) {
        self =
            switch error {
            case .refused: .refusedStream
            case .internalError: .internalError
            case .cancel: .cancel
            }
    }
}
