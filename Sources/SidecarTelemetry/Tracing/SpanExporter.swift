internal import CoreMetrics
internal import FoundationEssentials
internal import InterlockCore
internal import InterlockHTTP
package import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import OTLPMessages
internal import RedisClient
internal import ServiceLifecycle
package import SidecarSettings
internal import SwiftProtobuf

/// Sends spans to a collector with OTLP/HTTP in protobuf. Does not run on the coordinator's event loop.
///
/// <https://opentelemetry.io/docs/specs/otlp/#otlphttp>. Spans that the collector does not accept within three attempts
/// are dropped and counted.
package struct SpanExporter: Service {
    private static let pollInterval = Duration.milliseconds(500)
    /// The number of polls after which spans are sent even if the batch is not full.
    private static let maximumPolls = 10
    private static let maximumAttempts = 3
    private static let timeout = TimeAmount.seconds(3)
    /// The pause between two attempts, which doubles each time.
    private static let retryPause = Duration.seconds(1)
    /// The maximum `Retry-After` that is honored. During a pause, spans are queued, or dropped and counted.
    private static let maximumRetryPause = Duration.seconds(300)
    /// The lifetime of an idle connection: longer than the five seconds between batches.
    private static let idleTimeout = TimeAmount.seconds(30)
    private static let maximumResponseBytes = 64 << 10
    private static let retriedStatuses: Set<UInt> = [429, 502, 503, 504]

    private let endpoint: URL
    private let origin: HTTPOrigin
    private let fields: HTTPHeaders
    /// Returns the wait that the value of a `Retry-After` field requests; `nil` if the value is invalid.
    private let retryAfterMilliseconds: @Sendable (String) -> Int64?
    private let queue: SpanQueue
    private let messages: SpanMessages
    private let sent: Counter
    private let dropped: Counter
    private let failed: Counter
    private let logger: Logger
    private let eventLoop = MultiThreadedEventLoopGroup.singleton.next()

    /// Creates an exporter that sends spans while `run` is in progress.
    /// - Parameters:
    ///   - resource: the attributes of the spans' source.
    ///   - retryAfter: returns the milliseconds that the value of a `Retry-After` field requests; `nil` if it is
    ///     invalid.
    /// - Throws: an error if the endpoint cannot be used.
    package init(
        _ settings: TracingSettings, queue: SpanQueue, resource: KeyValuePairs<String, String>, logger: Logger,
        retryAfter: @escaping @Sendable (String) -> Int64? = { Int64($0).map { min($0, 86_400) * 1000 } }
    ) throws {
        guard let endpoint = URL(string: settings.endpoint), let host = endpoint.host, !host.isEmpty else {
            throw SidecarError("tracing.endpoint: \(settings.endpoint) is not a usable URL")
        }
        let isTLS = endpoint.scheme?.lowercased() == "https"
        self.endpoint = endpoint
        origin = HTTPOrigin(
            host: host, port: endpoint.port ?? HTTPOrigin.standardPort(isTLS: isTLS),
            tls: isTLS ? try HTTPOrigin.clientTLS(certificateAuthority: settings.certificateAuthority) : nil)
        fields = HTTPHeaders(settings.headers.map { ($0.name, $0.value) })
        retryAfterMilliseconds = retryAfter
        self.queue = queue
        messages = SpanMessages(resource: resource)
        self.logger = logger
        func counter(_ outcome: String) -> Counter {
            Counter(label: "interlock_spans_total", dimensions: [("outcome", outcome)])
        }
        sent = counter("sent")
        dropped = counter("dropped")
        failed = counter("failed")
    }

    /// Sends spans until graceful shutdown, and then sends the remaining ones. A shutdown ends pauses, but not a
    /// request in progress.
    func run() async throws {
        let connections = try await eventLoop.submit { [origin, eventLoop] in
            let settings = HTTPConnectionPool.Settings(
                connectTimeout: Self.timeout, idleTimeout: Self.idleTimeout, maximumConnections: 1)
            return NIOLoopBound(HTTPConnectionPool(origin, settings: settings, eventLoop: eventLoop), eventLoop: eventLoop)
        }.get()
        defer { eventLoop.execute { connections.value.close() } }
        var isHealthy = true
        // After cancellation, all pauses would end immediately and the loop would spin.
        while !Task.isShuttingDownGracefully, !Task.isCancelled {
            await waitForBatch()
            isHealthy = await flush(connections)
        }
        // If the last request failed, no further one is sent, because it could delay the shutdown.
        if isHealthy { await flush(connections) }
    }

    private func waitForBatch() async {
        for _ in 0..<Self.maximumPolls where !queue.hasBatch && !Task.isShuttingDownGracefully {
            await pause(for: Self.pollInterval)
        }
    }

    private func pause(for duration: Duration) async {
        await cancelWhenGracefulShutdown { try? await Task.sleep(for: duration) }
    }

    /// Sends all queued spans. If the collector refuses a batch, drops that batch and all later ones.
    /// - Returns: whether the collector accepted all batches.
    @discardableResult
    private func flush(_ connections: NIOLoopBound<HTTPConnectionPool>) async -> Bool {
        let (batches, droppedCount) = queue.take()
        self.dropped.increment(by: droppedCount)
        var remainingSpans = batches.reduce(0) { $0 + $1.count }
        for batch in batches {
            if let reason = await send(messages.request(batch), of: batch.count, connections) {
                failed.increment(by: remainingSpans)
                logger.log(.spansNotSent, ["endpoint": "\(endpoint)", "spans": "\(remainingSpans)", "error": reason])
                return false
            }
            remainingSpans -= batch.count
        }
        return true
    }

    /// Sends a batch, with retries.
    /// - Returns: the reason why the collector refused the batch; `nil` if it accepted the batch, even if it rejected
    ///   individual spans.
    private func send(_ body: [UInt8], of spanCount: Int, _ connections: NIOLoopBound<HTTPConnectionPool>) async
        -> String?
    {
        var pause = Self.retryPause
        var reason = ""
        for attempt in 1...Self.maximumAttempts {
            var requestedPause: Duration?
            do {
                let response = try await post(body, connections)
                let status = response.head.status.code
                if (200..<300).contains(status) {
                    recordAccepted(spanCount, response)
                    return nil
                }
                reason = "status \(status)"
                guard Self.retriedStatuses.contains(status) else { break }
                requestedPause = response.head.headers.first(name: "Retry-After")
                    .flatMap(retryAfterMilliseconds).map { .milliseconds(max(0, $0)) }
            } catch {
                reason = Self.reason(error)
            }
            guard attempt < Self.maximumAttempts || requestedPause != nil, !Task.isShuttingDownGracefully else { break }
            // The pause is random, so that sidecars do not retry simultaneously.
            let minimumPause = max(pause, min(requestedPause ?? .zero, Self.maximumRetryPause))
            await self.pause(for: minimumPause * Double.random(in: 1...1.5))
            pause *= 2
        }
        return reason
    }

    private static func reason(_ error: any Error) -> String {
        switch error as? HTTPFetch.Failure {
        case .notConnected(let cause)?, .interrupted(let cause)?:
            cause is HTTPClientConnection.Closed ? "the collector closed the connection" : "\(NetworkReason(cause))"
        case .timedOut?: "no response within \(timeout.nanoseconds / 1_000_000_000) seconds"
        case .cancelled?: "the sidecar stopped"
        case nil: "\(NetworkReason(error))"
        }
    }

    /// Counts the spans of a batch that the collector accepted, and logs those that it rejected.
    private func recordAccepted(_ spanCount: Int, _ response: HTTPFetch.Response) {
        let response = try? Opentelemetry_Proto_Collector_Trace_V1_ExportTraceServiceResponse(
            serializedBytes: Array(response.body.readableBytesView))
        let rejectedCount = min(spanCount, Int(clamping: max(0, response?.partialSuccess.rejectedSpans ?? 0)))
        self.sent.increment(by: spanCount - rejectedCount)
        guard rejectedCount > 0 else { return }
        failed.increment(by: rejectedCount)
        let reason = response?.partialSuccess.errorMessage ?? ""
        logger.log(.spansNotSent, ["endpoint": "\(endpoint)", "spans": "\(rejectedCount)", "error": reason])
    }

    private func post(_ body: [UInt8], _ connections: NIOLoopBound<HTTPConnectionPool>) async throws -> HTTPFetch.Response {
        let path = endpoint.path(percentEncoded: true)
        var headers: HTTPHeaders = [
            "Host": origin.authority, "User-Agent": "interlock/\(SidecarVersion.current)",
            "Content-Type": "application/x-protobuf", "Content-Length": "\(body.count)",
        ]
        headers.add(contentsOf: fields)
        let request = HTTPRequestHead(
            version: .http1_1, method: .POST, uri: path.isEmpty || path == "/" ? "/v1/traces" : path, headers: headers)
        return try await HTTPFetch.response(
            to: request, with: ByteBuffer(bytes: body), from: connections, maximumBytes: Self.maximumResponseBytes,
            within: Self.timeout,
            on: eventLoop)
    }
}
