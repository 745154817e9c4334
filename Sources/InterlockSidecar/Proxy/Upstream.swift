internal import AsyncHTTPClient
internal import FoundationEssentials
internal import HTTPTypes
internal import InterlockCore
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOHTTP1
internal import NIOSSL

/// A service as the proxy calls it: its connections, its retry budget and its last good answers.
///
/// It lives for as long as a call holds it, so that a reload cuts nothing off: what cancels an exchange keeps it until the
/// whole answer has arrived.
final class Upstream: Sendable {
    /// Idle connections are closed after so long, before most servers close theirs: a request on a connection that is just
    /// being closed is lost.
    private static let idleTimeout = TimeAmount.seconds(4)
    /// Without `concurrency`, the callers' own connections bound the upstream's.
    private static let mostConnections = 16_384

    let settings: UpstreamSettings
    let concurrency: Int?
    let lastGood: LastGoodAnswers?
    private let base: UpstreamBase
    private let client: HTTPClient
    private let budget: NIOLockedValueBox<RetryBudget>

    /// `nil`: the URL is not one that calls can be made to.
    init?(_ settings: UpstreamSettings, concurrency: Int?, eventLoopGroup: any EventLoopGroup) {
        guard let base = UpstreamBase(settings.url) else { return nil }
        self.settings = settings
        self.concurrency = concurrency
        self.base = base
        lastGood =
            if case .lastGood(let maximumAge) = settings.fallback { LastGoodAnswers(maximumAge: maximumAge) } else { nil }
        budget = NIOLockedValueBox(RetryBudget(settings: settings.retries))
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        if let file = settings.certificateAuthority { tls.trustRoots = .file(file) }
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: tls, redirectConfiguration: .disallow,
            timeout: .init(connect: TimeAmount(settings.connectTimeout)),
            connectionPool: .init(
                idleTimeout: Self.idleTimeout, concurrentHTTP1ConnectionsPerHostSoftLimit: concurrency ?? Self.mostConnections))
        configuration.httpVersion = .http1Only
        configuration.connectionPool.retryConnectionEstablishment = false
        client = HTTPClient(eventLoopGroup: eventLoopGroup, configuration: configuration)
    }

    deinit {
        // The client must not go before its connections have.
        Task { [client] in try? await client.shutdown() }
    }

    /// Closes all connections.
    func shutDown() async {
        // It can only have been shut down before.
        try? await client.shutdown()
    }

    func noteCall() {
        budget.withLockedValue { $0.noteCall() }
    }

    func takeRetry() -> Bool {
        let now = Instant(nanoseconds: Int64(clamping: NIODeadline.now().uptimeNanoseconds))
        return budget.withLockedValue { $0.takeRetry(now: now) }
    }

    /// Begins a call.
    /// - Throws: `HTTPProblem`: there is no such URL below the service's.
    func call(
        _ request: HTTPRequest, _ target: ProxyTarget, forwarded: String, upload: Upload?, on eventLoop: any EventLoop,
        deadline: NIODeadline
    ) throws -> UpstreamExchange {
        guard let url = base.url(for: target) else {
            throw HTTPProblem(.invalid, "the path does not lead to anything below the service's URL")
        }
        let method = HTTPMethod(rawValue: request.method.rawValue)
        let headers = ProxyFields.request(request.headerFields, authority: base.authority, forwarded: forwarded)
        let exchange = UpstreamExchange(
            eventLoop: eventLoop, firstByteTimeout: TimeAmount(settings.firstByteTimeout), deadline: deadline,
            isAwaitingClient: { upload?.isAwaited ?? false })
        if let upload {
            send(upload, method, url.absoluteString, headers, exchange, deadline: deadline)
        } else {
            let task = client.execute(
                request: try HTTPClient.Request(url: url, method: method, headers: headers),
                delegate: UpstreamDelegate(exchange: exchange), eventLoop: .delegate(on: eventLoop))
            exchange.began { [self] in withExtendedLifetime(self) { task.cancel() } }
            // A client that is being shut down does not tell the delegate.
            task.futureResult.whenFailure { exchange.ended(.failure($0)) }
        }
        return exchange
    }

    /// With a body the client's other interface is used: there an answer can end while the body is still being sent.
    private func send(
        _ upload: Upload, _ method: HTTPMethod, _ url: String, _ headers: HTTPHeaders, _ exchange: UpstreamExchange,
        deadline: NIODeadline
    ) {
        var request = HTTPClientRequest(url: url)
        request.method = method
        request.headers = headers
        request.body = .stream(upload.pieces(for: exchange), length: upload.length.map { .known($0) } ?? .unknown)
        let task = Task { [client] in
            do {
                let response = try await client.execute(request, deadline: deadline)
                exchange.received(HTTPResponseHead(version: response.version, status: response.status, headers: response.headers))
                for try await chunk in response.body { try await exchange.received(chunk).get() }
                exchange.ended(.success(()))
            } catch {
                exchange.ended(.failure(error))
            }
        }
        exchange.began { [self] in withExtendedLifetime(self) { task.cancel() } }
    }
}

/// The services that the proxy has called so far, each as it is configured now.
final class Upstreams: Sendable {
    private let table = NIOLockedValueBox<[String: Upstream]>([:])
    private let eventLoopGroup: any EventLoopGroup

    init(eventLoopGroup: any EventLoopGroup) {
        self.eventLoopGroup = eventLoopGroup
    }

    /// The upstream of a service; a new one when its settings have changed.
    /// - Returns: `nil`: its URL is not one that calls can be made to.
    func upstream(of service: String, _ settings: UpstreamSettings, concurrency: Int?) -> Upstream? {
        table.withLockedValue { table in
            if let known = table[service], known.concurrency == concurrency, known.settings == settings { return known }
            let upstream = Upstream(settings, concurrency: concurrency, eventLoopGroup: eventLoopGroup)
            table[service] = upstream
            return upstream
        }
    }

    /// Drops a service that is no longer there.
    func forget(_ service: String) {
        table.withLockedValue { $0[service] = nil }
    }

    /// Closes all connections.
    func shutDown() async {
        let upstreams = table.withLockedValue { table in
            defer { table = [:] }
            return Array(table.values)
        }
        for upstream in upstreams { await upstream.shutDown() }
    }
}
