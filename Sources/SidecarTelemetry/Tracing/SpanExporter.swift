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
    /// The maximum number of intervals for which spans are collected, so that many are sent together.
    private static let maximumPolls = 10
    private static let maximumAttempts = 3
    private static let timeout = TimeAmount.seconds(3)
    /// The pause between two attempts, which doubles each time.
    private static let retryPause = Duration.seconds(1)
    /// The maximum `Retry-After` that is honored. Meanwhile, spans are queued, or dropped and counted.
    private static let maximumRetryPause = Duration.seconds(300)
    /// The lifetime of an idle connection: longer than the five seconds between batches.
    private static let idleTimeout = TimeAmount.seconds(30)
    private static let maximumResponseBytes = 64 << 10
    private static let retriedStatuses: Set<UInt> = [429, 502, 503, 504]

    private let endpoint: URL
    private let origin: HTTPOrigin
    private let fields: HTTPHeaders
    /// Returns the milliseconds that a `Retry-After` asks for; `nil` if it is invalid.
    private let retryAfter: @Sendable (String) -> Int64?
    private let queue: SpanQueue
    private let messages: SpanMessages
    private let sent: Counter
    private let dropped: Counter
    private let failed: Counter
    private let logger: Logger
    private let eventLoop = MultiThreadedEventLoopGroup.singleton.next()

    /// - Parameters:
    ///   - resource: the attributes of the spans' source.
    ///   - retryAfter: parses a `Retry-After`, in milliseconds.
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
        self.retryAfter = retryAfter
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

    /// Sends spans until graceful shutdown, and then once more. Shutdown ends pauses, but not a request in progress.
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
        // If the collector failed, the last attempt is skipped, because it could hang.
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

    /// Sends all queued spans. After a batch that the collector refuses, the remaining ones are dropped.
    /// - Returns: whether the collector accepted all batches.
    @discardableResult
    private func flush(_ connections: NIOLoopBound<HTTPConnectionPool>) async -> Bool {
        let (batches, dropped) = queue.take()
        self.dropped.increment(by: dropped)
        var remaining = batches.reduce(0) { $0 + $1.count }
        for batch in batches {
            if let reason = await send(messages.request(batch), of: batch.count, connections) {
                failed.increment(by: remaining)
                logger.log(.spansNotSent, ["endpoint": "\(endpoint)", "spans": "\(remaining)", "error": reason])
                return false
            }
            remaining -= batch.count
        }
        return true
    }

    /// - Returns: the reason why the collector refused the batch; `nil` if it accepted the batch, even if it rejected
    ///   individual spans.
    private func send(_ body: [UInt8], of spans: Int, _ connections: NIOLoopBound<HTTPConnectionPool>) async -> String? {
        var pause = Self.retryPause
        var reason = ""
        for attempt in 1...Self.maximumAttempts {
            var requested: Duration?
            do {
                let response = try await post(body, connections)
                let status = response.head.status.code
                if (200..<300).contains(status) {
                    count(spans, response)
                    return nil
                }
                reason = "status \(status)"
                guard Self.retriedStatuses.contains(status) else { break }
                requested = response.head.headers.first(name: "Retry-After").flatMap(retryAfter).map { .milliseconds(max(0, $0)) }
            } catch {
                reason = Self.reason(error)
            }
            guard attempt < Self.maximumAttempts || requested != nil, !Task.isShuttingDownGracefully else { break }
            // Random, so that sidecars do not retry simultaneously.
            await self.pause(for: max(pause, min(requested ?? .zero, Self.maximumRetryPause)) * Double.random(in: 1...1.5))
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

    private func count(_ sent: Int, _ response: HTTPFetch.Response) {
        let response = try? Opentelemetry_Proto_Collector_Trace_V1_ExportTraceServiceResponse(
            serializedBytes: Array(response.body.readableBytesView))
        let rejected = min(sent, Int(clamping: max(0, response?.partialSuccess.rejectedSpans ?? 0)))
        self.sent.increment(by: sent - rejected)
        guard rejected > 0 else { return }
        failed.increment(by: rejected)
        let reason = response?.partialSuccess.errorMessage ?? ""
        logger.log(.spansNotSent, ["endpoint": "\(endpoint)", "spans": "\(rejected)", "error": reason])
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
