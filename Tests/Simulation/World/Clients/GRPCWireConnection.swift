import InterlockHTTP
import NIOCore
import NIOHPACK
import NIOHTTP2
import SwiftProtobuf

/// A client's gRPC connection to a sidecar, over HTTP/2 with prior knowledge. It can carry concurrent calls.
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

    /// The number of received bytes after which the client allows the sidecar to send more.
    private static let windowStep = 16 * 1024

    private let loop: SimulatedEventLoop
    private let wire: Wire
    private let channel: SimulatedChannel
    private let frames = GRPCFrames()
    private var state = State.connecting
    /// The calls in progress, in the order of their streams.
    private var calls: [Call] = []
    private var unsent: [(stream: HTTP2StreamID, path: String, message: ByteBuffer)] = []
    private var lastStreamID = -1
    /// The number of received bytes by which the connection's window is still smaller.
    private var consumedCount = 0
    /// Runs when the connection is lost, but not when this side closes it.
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
                timeline.schedule(in: path.drawDelay()) { [self] in connectionLost(.notConnected) }
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

    /// Calls a method with one message. Calls `completion` once, unless the call is cancelled.
    ///
    /// - Parameter path: the path in the form `/package.Service/Method`.
    /// - Returns: the call's number, for cancelling it.
    @discardableResult
    func call(_ path: String, _ message: some Message, completion: @escaping (Result<Response, Loss>) -> Void) -> Int {
        lastStreamID += 2
        guard acceptsCalls, let bytes = try? message.serializedBytes() as [UInt8] else {
            completion(.failure(.notConnected))
            return lastStreamID
        }
        let stream = HTTP2StreamID(lastStreamID)
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
        return lastStreamID
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

    fileprivate func frameReceived(_ frame: HTTP2Frame) {
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
            let refusedStreams = calls.map(\.stream).filter { $0 > last }
            for stream in refusedStreams { end(stream, .failure(.notConnected)) }
            closeIfDrained()
        default: break
        }
    }

    private func read(
        _ stream: HTTP2StreamID, _ body: (inout GRPCResponseReader) throws(GRPCResponseReader.ParseError) -> Response?
    ) {
        guard let index = calls.firstIndex(where: { $0.stream == stream }) else { return }
        do throws(GRPCResponseReader.ParseError) {
            guard let response = try body(&calls[index].reader) else { return }
            end(stream, .success(response))
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

    /// Counts received bytes, and allows the sidecar to send as many more from time to time.
    private func replenish(_ count: Int) {
        consumedCount += count
        guard consumedCount >= Self.windowStep, state != .closed else { return }
        frames.write(.windowUpdate(windowSizeIncrement: consumedCount), .rootStream)
        frames.flush()
        consumedCount = 0
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

    /// Handles the loss of the connection, or bytes that cannot be read.
    fileprivate func connectionLost(_ loss: Loss) {
        guard state != .closed else { return }
        shutDown()
        fail(loss)
        onLost()
    }

    private func fail(_ loss: Loss) {
        let failedCalls = calls
        (calls, unsent) = ([], [])
        for call in failedCalls { call.completion(.failure(loss)) }
    }
}

/// Passes frames between the HTTP/2 handler and the connection.
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

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { connection?.frameReceived(unwrapInboundIn(data)) }

    func channelInactive(context: ChannelHandlerContext) { connection?.connectionLost(.responseLost) }

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
        connection?.connectionLost(.unreadable("\(connectionError): \(error)"))
    }
}
