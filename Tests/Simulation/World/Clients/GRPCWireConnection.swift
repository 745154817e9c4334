import InterlockHTTP
import NIOCore
import NIOHPACK
import NIOHTTP2
import SwiftProtobuf

/// A client's gRPC connection to a sidecar, over HTTP/2 with prior knowledge. It can carry concurrent
/// calls.
final class GRPCWireConnection {
    /// The reason why a call has no response.
    enum Loss: Error {
        /// The sidecar did not begin the call.
        case notConnected
        /// The call may have been executed.
        case responseLost
        /// The frames are not a valid gRPC response.
        case unreadable(String)
    }

    /// The status of a call, and its message, if the status is 0.
    typealias Response = (status: Int, message: [UInt8]?)

    private enum State {
        case connecting
        case open
        /// The sidecar accepts no further calls.
        case draining
        case closed
    }

    private struct Call {
        var stream: HTTP2StreamID
        var reader = GRPCResponseReader()
        var completion: (Result<Response, Loss>) -> Void
    }

    /// The number of consumed bytes after which the sidecar is allowed to send more.
    private static let windowStep = 16 * 1024

    private let loop: SimulatedEventLoop
    private let wire: Wire
    private let channel: SimulatedChannel
    private let frames = GRPCFrames()
    private var state = State.connecting
    /// The calls in progress, in the order of their streams.
    private var calls: [Call] = []
    private var unsent: [(stream: HTTP2StreamID, path: String, message: ByteBuffer)] = []
    private var lastStream = -1
    /// The number of received bytes that were not returned to the connection's window yet.
    private var consumed = 0
    /// Called when the connection is lost, but not when this side closes it.
    var onLost: () -> Void = {}

    /// Starts to connect. Calls made before the connection is open are queued.
    ///
    /// - Parameter loop: the client's event loop, which must live as long as its world.
    init(to sidecar: SidecarHost, over path: Path, timeline: WorldTimeline, on loop: SimulatedEventLoop) {
        self.loop = loop
        wire = Wire(timeline: timeline, path: path)
        channel = SimulatedChannel(over: wire, on: loop)
        frames.connection = self
        timeline.schedule(in: path.drawDelay()) { [self] in
            guard state == .connecting else { return }
            guard sidecar.accept(wire, at: .grpc) else {
                timeline.schedule(in: path.drawDelay()) { [self] in lost(.notConnected) }
                return
            }
            begin()
        }
    }

    /// Whether calls are sent immediately.
    var isOpen: Bool { state == .open }
    /// Whether new calls are accepted.
    var acceptsCalls: Bool { state == .connecting || state == .open }

    private func begin() {
        state = .open
        loop.enter {
            // Safe to ignore: adding handlers cannot fail, because the channel and its handlers are new.
            try? channel.pipeline.syncOperations.addHandlers(
                NIOHTTP2Handler(
                    mode: .client, frameDelegate: frames,
                    connectionConfiguration: HTTPProtocol.connection([HTTP2Setting(parameter: .enablePush, value: 0)]),
                    streamConfiguration: HTTPProtocol.streams(maximumResets: 1_000_000)), frames)
            channel.activate()
            for call in unsent { send(call.stream, call.path, call.message) }
        }
        unsent = []
    }

    // MARK: Calls

    /// Calls a method with one message. `completion` is called once, unless the call is cancelled.
    ///
    /// - Parameter path: the path in the form `/package.Service/Method`.
    /// - Returns: the call's number, for cancelling it.
    @discardableResult
    func call(_ path: String, _ message: some Message, completion: @escaping (Result<Response, Loss>) -> Void) -> Int {
        lastStream += 2
        guard acceptsCalls, let bytes = try? message.serializedBytes() as [UInt8] else {
            completion(.failure(.notConnected))
            return lastStream
        }
        let stream = HTTP2StreamID(lastStream)
        calls.append(Call(stream: stream, completion: completion))
        var buffer = ByteBuffer()
        buffer.writeInteger(UInt8(0))
        buffer.writeInteger(UInt32(bytes.count))
        buffer.writeBytes(bytes)
        if state == .open {
            loop.enter { send(stream, path, buffer) }
        } else {
            unsent.append((stream, path, buffer))
        }
        return lastStream
    }

    /// Cancels a call and resets its stream.
    func cancel(_ number: Int) {
        let stream = HTTP2StreamID(number)
        unsent.removeAll { $0.stream == stream }
        guard let index = calls.firstIndex(where: { $0.stream == stream }) else { return }
        calls.remove(at: index)
        guard state != .connecting else { return }
        loop.enter {
            frames.write(.rstStream(.cancel), stream)
            frames.flush()
        }
        closeIfDrained()
    }

    /// Closes this end, even if calls are pending.
    func close() {
        guard state != .closed else { return }
        shutDown()
        fail(.responseLost)
    }

    private func send(_ stream: HTTP2StreamID, _ path: String, _ message: ByteBuffer) {
        let fields = HPACKHeaders([
            (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost:7381"),
            ("content-type", "application/grpc"), ("te", "trailers"),
        ])
        frames.write(.headers(.init(headers: fields)), stream)
        frames.write(.data(.init(data: .byteBuffer(message), endStream: true)), stream)
        frames.flush()
    }

    // MARK: Responses

    fileprivate func received(_ frame: HTTP2Frame) {
        switch frame.payload {
        case .headers(let head):
            read(frame.streamID) { reader throws(GRPCResponseReader.ParseError) in
                try reader.read(head.headers, isLast: head.endStream)
            }
        case .data(let data):
            guard case .byteBuffer(let bytes) = data.data else { return }
            replenish(bytes.readableBytes)
            read(frame.streamID) { reader throws(GRPCResponseReader.ParseError) in
                try reader.read(bytes, isLast: data.endStream)
            }
        case .rstStream(let code): end(frame.streamID, .failure(code == .refusedStream ? .notConnected : .responseLost))
        case .goAway(let last, _, _):
            guard state == .open else { return }
            state = .draining
            let refused = calls.map(\.stream).filter { $0 > last }
            for stream in refused { end(stream, .failure(.notConnected)) }
            closeIfDrained()
        default: break
        }
    }

    private func read(
        _ stream: HTTP2StreamID, _ body: (inout GRPCResponseReader) throws(GRPCResponseReader.ParseError) -> Response?
    ) {
        guard let index = calls.firstIndex(where: { $0.stream == stream }) else { return }
        do throws(GRPCResponseReader.ParseError) {
            guard let answer = try body(&calls[index].reader) else { return }
            end(stream, .success(answer))
        } catch {
            end(stream, .failure(.unreadable(error.reason)))
        }
    }

    fileprivate func streamClosed(_ stream: HTTP2StreamID) { end(stream, .failure(.responseLost)) }

    private func end(_ stream: HTTP2StreamID, _ result: Result<Response, Loss>) {
        guard let index = calls.firstIndex(where: { $0.stream == stream }) else { return }
        calls.remove(at: index).completion(result)
        closeIfDrained()
    }

    private func replenish(_ count: Int) {
        consumed += count
        guard consumed >= Self.windowStep, state != .closed else { return }
        frames.write(.windowUpdate(windowSizeIncrement: consumed), .rootStream)
        frames.flush()
        consumed = 0
    }

    // MARK: Closing

    private func closeIfDrained() {
        if state == .draining, calls.isEmpty { shutDown() }
    }

    private func shutDown() {
        let wasConnecting = state == .connecting
        state = .closed
        if !wasConnecting { loop.enter { channel.close(promise: nil) } }
    }

    /// Call when the connection was lost or received bytes that cannot be read.
    fileprivate func lost(_ loss: Loss) {
        guard state != .closed else { return }
        shutDown()
        fail(loss)
        onLost()
    }

    private func fail(_ loss: Loss) {
        let failed = calls
        (calls, unsent) = ([], [])
        for call in failed { call.completion(.failure(loss)) }
    }
}

/// Passes frames between HTTP/2 and the connection object.
private final class GRPCFrames: ChannelInboundHandler, NIOHTTP2FrameDelegate {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    weak var connection: GRPCWireConnection?
    private var context: ChannelHandlerContext?
    /// The error code with which this side closed the connection.
    private var connectionError: HTTP2ErrorCode?

    func write(_ payload: HTTP2Frame.FramePayload, _ stream: HTTP2StreamID) {
        context?.write(wrapOutboundOut(HTTP2Frame(streamID: stream, payload: payload)), promise: nil)
    }

    func flush() { context?.flush() }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { connection?.received(unwrapInboundIn(data)) }

    func channelInactive(context: ChannelHandlerContext) { connection?.lost(.responseLost) }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard let closed = event as? StreamClosedEvent, closed.reason != nil else { return }
        connection?.streamClosed(closed.streamID)
    }

    func wroteFrame(_ frame: HTTP2Frame) {
        if case .goAway(_, let code, _) = frame.payload, code != .noError { connectionError = code }
    }

    /// Ignores errors for which this side sends no `GOAWAY`, because they concern streams that have already closed.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let connectionError else { return }
        connection?.lost(.unreadable("\(connectionError): \(error)"))
    }
}
