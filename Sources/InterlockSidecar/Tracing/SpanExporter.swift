internal import CoreMetrics
internal import FoundationEssentials
internal import InterlockCore
internal import InterlockHTTP
internal import InterlockOTLP
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import ServiceLifecycle
internal import SwiftProtobuf

/// Sends spans to a collector: OTLP over HTTP, in protobuf. Away from the coordinator's event loop.
///
/// <https://opentelemetry.io/docs/specs/otlp/#otlphttp>. What the collector does not take within three attempts is dropped and counted.
struct SpanExporter: Service {
    private static let pause = Duration.milliseconds(500)
    /// What there is waits for so many pauses at most: a connection costs as much as some hundred spans, so that many are sent together.
    private static let mostPauses = 10
    private static let attempts = 3
    private static let timeout = TimeAmount.seconds(3)
    /// Between two attempts; twice as long each time.
    private static let retryPause = Duration.seconds(1)
    private static let longestAnswer = 64 << 10
    private static let retried: Set<UInt> = [429, 502, 503, 504]

    private let endpoint: URL
    private let origin: HTTPOrigin
    private let queue: SpanQueue
    private let messages: SpanMessages
    private let sent: Counter
    private let dropped: Counter
    private let failed: Counter
    private let logger: Logger
    private let eventLoop = MultiThreadedEventLoopGroup.singleton.next()

    /// - Parameter resource: what the spans come from.
    /// - Throws: when the endpoint cannot be used.
    init(_ settings: TracingSettings, queue: SpanQueue, resource: KeyValuePairs<String, String>, logger: Logger) throws {
        guard let endpoint = URL(string: settings.endpoint), let host = endpoint.host, !host.isEmpty else {
            throw SidecarError("tracing.endpoint: \(settings.endpoint) cannot be used")
        }
        let isTLS = endpoint.scheme?.lowercased() == "https"
        self.endpoint = endpoint
        origin = HTTPOrigin(
            host: host, port: endpoint.port ?? HTTPOrigin.standardPort(isTLS: isTLS),
            tls: isTLS ? try HTTPOrigin.clientTLS(certificateAuthority: nil) : nil)
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

    /// Sends until graceful shutdown, and then once more. Pauses end with it; what is being sent is sent.
    func run() async throws {
        var isWell = true
        // Where it is cancelled its pauses have no length.
        while !Task.isShuttingDownGracefully, !Task.isCancelled {
            await waitForMany()
            isWell = await flush()
        }
        // A collector that hangs has had its time.
        if isWell { await flush() }
    }

    private func waitForMany() async {
        for _ in 0..<Self.mostPauses where !queue.hasMany && !Task.isShuttingDownGracefully { await pause(for: Self.pause) }
    }

    private func pause(for duration: Duration) async {
        await cancelWhenGracefulShutdown { try? await Task.sleep(for: duration) }
    }

    /// - Returns: whether the collector took all there was. When it does not take one batch it is not asked for the others.
    @discardableResult
    private func flush() async -> Bool {
        let (batches, dropped) = queue.take()
        self.dropped.increment(by: dropped)
        var rest = batches.reduce(0) { $0 + $1.count }
        for batch in batches {
            if let reason = await send(messages.request(batch), of: batch.count) {
                failed.increment(by: rest)
                logger.log(.spansNotSent, ["endpoint": "\(endpoint)", "spans": "\(rest)", "error": reason])
                return false
            }
            rest -= batch.count
        }
        return true
    }

    /// - Returns: why the collector did not take them; `nil`: it did, but for those that it says it has rejected.
    private func send(_ body: [UInt8], of spans: Int) async -> String? {
        var pause = Self.retryPause
        var reason = ""
        for attempt in 1...Self.attempts {
            do {
                let answer = try await post(body)
                let status = answer.head.status.code
                if (200..<300).contains(status) {
                    count(spans, answer)
                    return nil
                }
                reason = "status \(status)"
                guard Self.retried.contains(status) else { break }
            } catch {
                reason = "\(error)"
            }
            guard attempt < Self.attempts, !Task.isShuttingDownGracefully else { break }
            // A little apart for each sidecar.
            await self.pause(for: pause * Double.random(in: 1...1.5))
            pause *= 2
        }
        return reason
    }

    private func count(_ sent: Int, _ answer: HTTPFetch.Answer) {
        let said = try? Opentelemetry_Proto_Collector_Trace_V1_ExportTraceServiceResponse(
            serializedBytes: Array(answer.body.readableBytesView))
        let rejected = min(sent, Int(clamping: max(0, said?.partialSuccess.rejectedSpans ?? 0)))
        self.sent.increment(by: sent - rejected)
        guard rejected > 0 else { return }
        failed.increment(by: rejected)
        let reason = said?.partialSuccess.errorMessage ?? ""
        logger.log(.spansNotSent, ["endpoint": "\(endpoint)", "spans": "\(rejected)", "error": reason])
    }

    private func post(_ body: [UInt8]) async throws -> HTTPFetch.Answer {
        let path = endpoint.path(percentEncoded: true)
        let request = HTTPRequestHead(
            version: .http1_1, method: .POST, uri: path.isEmpty || path == "/" ? "/v1/traces" : path,
            headers: [
                "Host": origin.authority, "User-Agent": "interlock/\(SidecarVersion.current)",
                "Content-Type": "application/x-protobuf", "Content-Length": "\(body.count)", "Connection": "close",
            ])
        return try await HTTPFetch.answer(
            to: request, with: ByteBuffer(bytes: body), from: origin,
            settings: .init(connectTimeout: Self.timeout, idleTimeout: .zero, mostConnections: 1),
            mostBytes: Self.longestAnswer, within: Self.timeout, on: eventLoop)
    }
}
