internal import Interlock
internal import InterlockCore
internal import InterlockHTTP
internal import Logging
package import NIOCore
package import NIOHTTP1
internal import SidecarTelemetry

/// Sends the response to one request, and discards it once the client has left. Confined to the connection's event
/// loop.
package final class HTTPResponder {
    private enum Progress {
        /// The final response has not begun.
        case awaited
        /// The response's head is written, and perhaps a part of its body.
        case begun
        /// The response is completely written, or the client has left.
        case over
    }

    private let connection: any HTTPRespondingConnection
    private let context: ChannelHandlerContext
    private let writer: ResponseWriter
    private let version: HTTPVersion
    private let isHead: Bool
    private let counters: HTTPRouteCounters?
    private let path: String
    private let startedAt: NIODeadline
    private let span: Span?
    private let logger: Logger
    private var progress = Progress.awaited
    /// Called if the client leaves before its response is complete.
    private var disconnectHandler: (() -> Void)?
    /// Whether no body follows the head, even if the head announces one.
    private var omitsBody = false
    private var endsConnection = false
    /// The promises to complete when the client can accept more of a streamed body.
    private var pendingWrites: [EventLoopPromise<Void>] = []

    /// Creates the responder of one request.
    /// - Parameters:
    ///   - counters: the route's counters; `nil` if the request is rejected without a route.
    ///   - path: the route's path.
    ///   - span: ends with the response; `nil` if the request is not traced.
    init(
        to head: HTTPRequestHead, of connection: any HTTPRespondingConnection, context: ChannelHandlerContext,
        counters: HTTPRouteCounters?, path: String, span: Span? = nil, logger: Logger
    ) {
        self.connection = connection
        self.context = context
        startedAt = context.eventLoop.now
        writer = connection.writer
        self.counters = counters
        self.path = path
        self.span = span
        self.logger = logger
        version = head.version == .http2 || head.version == .http1_0 ? head.version : .http1_1
        isHead = head.method == .HEAD
    }

    package var eventLoop: any EventLoop { context.eventLoop }

    /// The value of the `Date` field.
    package var date: String { connection.date }

    /// Whether the response has not begun, and the client is still connected.
    var isAwaited: Bool { progress == .awaited }

    /// Whether the response is completely written, or the client has left.
    package var hasEnded: Bool { progress == .over }

    /// Calls `action` if the client leaves before its response is complete, or immediately if the responder has
    /// finished.
    package func onDisconnect(_ action: @escaping () -> Void) {
        if progress == .over { action() } else { disconnectHandler = action }
    }

    // MARK: Whole responses

    /// Sends a response.
    /// - Returns: `false` if the client has left.
    @discardableResult
    package func callAsFunction(_ response: HTTPResponse) -> Bool {
        guard progress == .awaited else {
            response.ifUndelivered?()
            return false
        }
        var response = response
        if !response.isRelayed { complete(&response) }
        if response.endsConnection { endsConnection = true }
        write(response.status, response.headers)
        switch response.body {
        case .stream(let write) where !isHead:
            span?.end()
            flush()
            return stream(write, response)
        case .open where !isHead:
            span?.end()
            flush()
            return true
        case .complete(let body) where !isHead:
            writePart(body)
            return end(response)
        case .none, .stream, .open, .complete:
            return end(response)
        }
    }

    /// Sends an error, or closes the connection if the error is not meant for clients.
    /// - Returns: `false` if the client has left, or the connection was closed.
    @discardableResult
    func fail(_ error: any Error) -> Bool {
        let problem: HTTPProblem
        switch error {
        case let error as HTTPProblem: problem = error
        case let error as InterlockError: problem = HTTPProblem(error)
        default:
            // Other errors contain nothing that is useful to a client.
            abort()
            return false
        }
        return self(HTTPResponse(problem))
    }

    /// Sends the result of `body`, or the error that it throws.
    @discardableResult
    func respond(with body: () throws -> HTTPResponse) -> Bool {
        do {
            return self(try body())
        } catch {
            return fail(error)
        }
    }

    /// Adds the fields of every response of this API.
    private func complete(_ response: inout HTTPResponse) {
        response.headers.add(name: "Date", value: date)
        response.headers.add(name: "Cache-Control", value: "no-store")
        response.headers.add(name: "X-Content-Type-Options", value: "nosniff")
        switch response.body {
        case .complete(let body): response.headers.add(name: "Content-Length", value: "\(body.readableBytes)")
        case .none where response.status.mayHaveResponseBody: response.headers.add(name: "Content-Length", value: "0")
        case .none, .stream, .open: break
        }
    }

    /// Writes the end of a response. If this fails, calls `ifUndelivered`, which releases what was granted.
    private func end(_ response: HTTPResponse) -> Bool {
        var written: EventLoopPromise<Void>?
        if let ifUndelivered = response.ifUndelivered {
            let promise = context.eventLoop.makePromise(of: Void.self)
            promise.futureResult.assumeIsolated().whenFailure { _ in ifUndelivered() }
            written = promise
        }
        finish(nil, written)
        return true
    }

    /// Starts the task that writes a streamed body.
    private func stream(_ write: @escaping @Sendable (HTTPBodyWriter) async throws -> Void, _ response: HTTPResponse) -> Bool {
        let eventLoop = context.eventLoop
        let responder = NIOLoopBound(self, eventLoop: eventLoop)
        let writer = HTTPBodyWriter(responder: responder, eventLoop: eventLoop)
        Task {
            do {
                try await write(writer)
                eventLoop.execute { responder.value.writeEnd(nil) }
            } catch {
                eventLoop.execute {
                    response.ifUndelivered?()
                    responder.value.abort()
                }
            }
        }
        return true
    }

    // MARK: Responses in parts

    /// Asks a client that waits for `100 Continue` to send its body.
    package func writeContinue() {
        guard progress == .awaited, version != .http1_0 else { return }
        connection.continueSent()
        writeHead(.continue, [:])
        writer.flush(context)
    }

    /// Writes an informational response, except to HTTP/1.0 clients, which do not understand it.
    package func writeInformational(_ status: HTTPResponseStatus, _ headers: HTTPHeaders) {
        guard progress == .awaited, version != .http1_0 else { return }
        writeHead(status, headers)
        writer.flush(context)
    }

    private func writeHead(_ status: HTTPResponseStatus, _ headers: HTTPHeaders) {
        writer.write(.head(HTTPResponseHead(version: version, status: status, headers: headers)), to: context, promise: nil)
    }

    /// Writes the head of the response.
    package func write(_ status: HTTPResponseStatus, _ headers: HTTPHeaders) {
        guard progress == .awaited else { return }
        progress = .begun
        record(status)
        var headers = headers
        // A response to `HEAD` has no chunks. Without a length, only the end of the connection shows where the response
        // ends.
        omitsBody = isHead && version != .http2 && status.mayHaveResponseBody && !headers.contains(name: "Content-Length")
        let isReusable = connection.responseBegins()
        endsConnection = endsConnection || omitsBody || version == .http1_0 || !isReusable
        if endsConnection, version != .http2 { headers.replaceOrAdd(name: "Connection", value: "close") }
        writeHead(status, headers)
    }

    /// Records the response's status in the metrics, the log and the span.
    private func record(_ status: HTTPResponseStatus) {
        counters?.recordResponse(status, in: eventLoop.now - startedAt, trace: span?.context)
        logger.log(.httpAnswered, fields(status))
        guard let span else { return }
        span.set("http.response.status_code", Int64(status.code))
        if status.code >= 500 { span.fail("status \(status.code)") }
    }

    private func fields(_ status: HTTPResponseStatus) -> [String: String] {
        var fields = ["route": path, "status": "\(status.code)"]
        fields["trace"] = span?.context.traceID.text
        return fields
    }

    /// Writes part of the body.
    package func write(_ part: ByteBuffer) {
        guard progress == .begun else { return }
        writePart(part)
    }

    /// Ends the response.
    package func writeEnd(_ trailers: HTTPHeaders?) {
        guard progress == .begun else { return }
        finish(trailers, nil)
    }

    package func flush() {
        guard progress == .begun else { return }
        writer.flush(context)
    }

    /// Switches protocols: from now on, `handler` reads and writes the connection's bytes.
    /// - Throws: if the client has left.
    package func switchProtocols(_ headers: HTTPHeaders, to handler: any ChannelHandler) throws {
        guard progress == .awaited else { throw ChannelError.ioOnClosedChannel }
        progress = .over
        disconnectHandler = nil
        record(.switchingProtocols)
        span?.end()
        writeHead(.switchingProtocols, headers)
        writer.flush(context)
        try connection.handOver(to: handler)
    }

    /// Whether the client can accept more now.
    package var isWritable: Bool { context.channel.isWritable }

    /// Closes the connection, so that an incomplete response does not seem complete.
    package func abort() {
        guard progress != .over else { return }
        progress = .over
        disconnectHandler = nil
        span?.fail("the connection was closed before the response was complete")
        span?.end()
        connection.abort()
    }

    /// Resumes or pauses reading the request's body.
    package func setReading(_ isWanted: Bool) {
        guard progress != .over else { return }
        connection.setReading(isWanted)
    }

    /// Sets the time at which the relay's `timerFired` is called. Replaces an earlier deadline.
    package func setTimer(_ deadline: NIODeadline) {
        guard progress != .over else { return }
        connection.setTimer(deadline)
    }

    private func writePart(_ part: ByteBuffer) {
        writer.write(.body(.byteBuffer(part)), to: context, promise: nil)
    }

    private func finish(_ trailers: HTTPHeaders?, _ written: EventLoopPromise<Void>?) {
        progress = .over
        disconnectHandler = nil
        span?.end()
        var written = written
        if connection.needsResponseWritten {
            let endWritten = written ?? context.eventLoop.makePromise(of: Void.self)
            endWritten.futureResult.assumeIsolated().whenSuccess { [connection] in connection.responseWritten() }
            written = endWritten
        }
        writer.write(omitsBody ? .body(.byteBuffer(ByteBuffer())) : .end(trailers), to: context, promise: written)
        connection.responseEnded(endsConnection: endsConnection)
    }

    // MARK: Reports from the connection

    /// Completes the pending writes if the client can accept more.
    func writabilityChanged(_ isWritable: Bool) {
        guard isWritable else { return }
        let pendingWrites = pendingWrites
        self.pendingWrites = []
        for write in pendingWrites { write.succeed() }
    }

    /// Handles the client's departure: calls the action of `onDisconnect`.
    func clientDisconnected() {
        guard progress != .over else { return }
        span?.fail(StepTrace.givenUpReason)
        let disconnectHandler = disconnectHandler
        self.disconnectHandler = nil
        disconnectHandler?()
    }

    /// Ends a request that cannot be read to its end: responds with the problem, or aborts a response that has begun.
    func abort(_ problem: HTTPProblem) {
        guard progress != .over else { return }
        let disconnectHandler = disconnectHandler
        self.disconnectHandler = nil
        if progress == .awaited {
            var response = HTTPResponse(problem)
            response.endsConnection = true
            self(response)
        }
        disconnectHandler?()
        abort()
    }

    /// Ends the response, because the connection has ended.
    func connectionEnded() {
        let disconnectHandler = disconnectHandler
        self.disconnectHandler = nil
        progress = .over
        disconnectHandler?()
        span?.abandon()
        let pendingWrites = pendingWrites
        self.pendingWrites = []
        for write in pendingWrites { write.fail(HTTPBodyWriter.Closed()) }
    }

    /// Writes part of a streamed body. Completes `completion` when the client can accept more.
    func write(_ part: ByteBuffer, _ completion: EventLoopPromise<Void>) {
        guard progress == .begun else { return completion.fail(HTTPBodyWriter.Closed()) }
        writePart(part)
        writer.flush(context)
        // The flush may have shown that the client has left.
        guard progress == .begun else { return completion.fail(HTTPBodyWriter.Closed()) }
        if isWritable { completion.succeed() } else { pendingWrites.append(completion) }
    }
}

/// The connection on which a responder sends.
protocol HTTPRespondingConnection: AnyObject {
    /// Records that the head of the response is about to be written.
    /// - Returns: whether another request may follow on the connection.
    func responseBegins() -> Bool
    /// Records that the client was asked to send its body.
    func continueSent()
    /// Whether the responder must call `responseWritten` if the response completes now.
    var needsResponseWritten: Bool { get }
    /// Records that the response is complete, before it is flushed.
    func responseEnded(endsConnection: Bool)
    /// Records that the end of the response was passed to the network.
    func responseWritten()
    var writer: ResponseWriter { get }
    /// The value of the `Date` field.
    var date: String { get }
    /// Closes the connection immediately.
    func abort()
    /// Passes the connection's bytes to `handler` until the connection ends.
    func handOver(to handler: any ChannelHandler) throws
    /// Resumes or pauses reading the request's body.
    func setReading(_ isWanted: Bool)
    /// Sets the time at which the relay's `timerFired` is called.
    func setTimer(_ deadline: NIODeadline)
}
