package import NIOCore
package import NIOHTTP1

/// One request to a server, whose response is collected and delivered as a whole. Confined to its pool's event loop.
package final class HTTPFetch: HTTPClientReceiver {
    package struct Response: Sendable {
        package var head: HTTPResponseHead
        package var body: ByteBuffer
        /// Whether the body exceeded the limit and was truncated.
        package var isTruncated: Bool
    }

    package enum Failure: Error {
        /// No connection was established, and nothing was sent.
        case notConnected(any Error)
        /// No complete response arrived in time.
        case timedOut
        /// The connection ended before the response was complete.
        case interrupted(any Error)
        case cancelled
    }

    private let request: HTTPRequestHead
    private let body: ByteBuffer?
    private let maximumBytes: Int
    private let pool: HTTPConnectionPool
    private var completion: ((Result<Response, Failure>) -> Void)?
    private var connection: HTTPClientConnection?
    private var response: Response?
    private var timeout: Scheduled<Void>?

    /// Creates a request, which `begin` sends.
    /// - Parameters:
    ///   - body: the request's body, whose length the head announces; `nil` for a request without a body.
    ///   - maximumBytes: the size at which the response body is truncated.
    ///   - completion: called once, possibly before `begin` returns.
    package init(
        _ request: HTTPRequestHead, with body: ByteBuffer? = nil, from pool: HTTPConnectionPool, maximumBytes: Int,
        completion: @escaping (Result<Response, Failure>) -> Void
    ) {
        self.request = request
        self.body = body
        self.pool = pool
        self.maximumBytes = maximumBytes
        self.completion = completion
    }

    package func begin(deadline: NIODeadline) {
        timeout = pool.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [self] in
            end(.failure(connection == nil ? .notConnected(ChannelError.connectTimeout(.zero)) : .timedOut))
        }
        pool.lease(for: self)
    }

    package func cancel() { end(.failure(.cancelled)) }

    private func end(_ result: Result<Response, Failure>) {
        guard let completion else { return }
        self.completion = nil
        timeout?.cancel()
        if let connection { connection.abandon() } else { pool.cancel(self) }
        connection = nil
        completion(result)
    }

    package func connectionEstablished(_ connection: HTTPClientConnection) {
        self.connection = connection
        connection.send(request)
        if let body { connection.send(body) }
        connection.sendEnd()
    }

    package func connectionFailed(_ error: any Error) { end(.failure(.notConnected(error))) }

    package func headReceived(_ head: HTTPResponseHead) {
        response = Response(head: head, body: ByteBuffer(), isTruncated: false)
    }

    package func partReceived(_ part: ByteBuffer) {
        let remaining = maximumBytes - (response?.body.readableBytes ?? 0)
        response?.body.writeImmutableBuffer(
            part.getSlice(at: part.readerIndex, length: min(remaining, part.readableBytes)) ?? part)
        guard part.readableBytes > remaining, var response else { return }
        response.isTruncated = true
        end(.success(response))
    }

    package func endReceived(_ trailers: HTTPHeaders?) {
        // The connection may carry other requests from now on.
        connection = nil
        if let response { end(.success(response)) }
    }

    package func requestFailed(_ error: any Error) {
        connection = nil
        end(.failure(.interrupted((error as? HTTPClientConnection.Interruption)?.cause ?? error)))
    }

    package func readCompleted() {}

    package func writabilityChanged(_ isWritable: Bool) {}
}

extension HTTPFetch {
    private struct Progress {
        var fetch: HTTPFetch?
        var isCancelled = false
    }

    /// Sends a request on a dedicated connection, which closes after the response. Cancelling the task ends the request
    /// immediately.
    package static func response(
        to request: HTTPRequestHead, with body: ByteBuffer? = nil, from origin: HTTPOrigin, settings: HTTPConnectionPool.Settings,
        maximumBytes: Int,
        within timeout: TimeAmount, on eventLoop: any EventLoop
    ) async throws -> Response {
        try await response(to: request, with: body, maximumBytes: maximumBytes, within: timeout, on: eventLoop) {
            let pool = HTTPConnectionPool(origin, settings: settings, eventLoop: eventLoop)
            return (pool, { pool.close() })
        }
    }

    /// Sends a request on a connection of a pool, which keeps the connection. Cancelling the task ends the request
    /// immediately.
    package static func response(
        to request: HTTPRequestHead, with body: ByteBuffer? = nil, from pool: NIOLoopBound<HTTPConnectionPool>, maximumBytes: Int,
        within timeout: TimeAmount, on eventLoop: any EventLoop
    ) async throws -> Response {
        try await response(to: request, with: body, maximumBytes: maximumBytes, within: timeout, on: eventLoop) {
            (pool.value, {})
        }
    }

    private static func response(
        to request: HTTPRequestHead, with body: ByteBuffer?, maximumBytes: Int, within timeout: TimeAmount,
        on eventLoop: any EventLoop,
        from makePool: @escaping @Sendable () -> (pool: HTTPConnectionPool, close: () -> Void)
    ) async throws -> Response {
        let progress = NIOLoopBoundBox.makeBoxSendingValue(Progress(), eventLoop: eventLoop)
        return try await withTaskCancellationHandler {
            try await eventLoop.flatSubmit {
                let response = eventLoop.makePromise(of: Response.self)
                guard !progress.value.isCancelled else {
                    response.fail(Failure.cancelled)
                    return response.futureResult
                }
                let (pool, closePool) = makePool()
                let fetch = HTTPFetch(request, with: body, from: pool, maximumBytes: maximumBytes) { result in
                    progress.value.fetch = nil
                    closePool()
                    response.completeWith(result.mapError { $0 as any Error })
                }
                progress.value.fetch = fetch
                fetch.begin(deadline: eventLoop.now + timeout)
                return response.futureResult
            }.get()
        } onCancel: {
            eventLoop.execute {
                progress.value.isCancelled = true
                progress.value.fetch?.cancel()
            }
        }
    }
}
