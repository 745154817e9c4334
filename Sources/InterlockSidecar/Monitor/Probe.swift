internal import FoundationEssentials
internal import InterlockCore
internal import InterlockHTTP
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import SidecarSettings

/// A service's probe. Each call to `run` probes once.
struct Probe: Sendable {
    private enum Method: Sendable {
        case http(HTTPProbe)
        case tcp(TCPProbe)
    }

    private let method: Method
    private let deadline: ProbeDeadline

    /// Prepares a probe.
    /// - Parameters:
    ///   - url: the service's URL, to which a path in the settings is appended.
    ///   - certificateAuthority: a file of certificates in PEM; `nil` for the system's.
    ///   - speaksHTTP2: whether the proxy uses HTTP/2 for the service. A probe of the same server then uses it too.
    /// - Throws: an error if the settings are invalid, which does not happen with a parsed configuration.
    init(
        _ settings: ProbeSettings, url: String?, certificateAuthority: String?, speaksHTTP2: Bool = false,
        eventLoopGroup: any EventLoopGroup
    ) throws {
        deadline = ProbeDeadline(timeout: settings.timeout, eventLoopGroup: eventLoopGroup)
        switch settings.target {
        case .http(let address):
            let probeURL = try Self.url(address, below: url)
            method = .http(
                HTTPProbe(
                    url: probeURL, judge: try ProbeJudge(settings.expectation), certificateAuthority: certificateAuthority,
                    speaksHTTP2: speaksHTTP2 && Self.isSameServer(probeURL, url), settings: settings,
                    eventLoopGroup: eventLoopGroup))
        case .tcp(let host, let port):
            method = .tcp(TCPProbe(host: host, port: port, timeout: settings.timeout, eventLoopGroup: eventLoopGroup))
        }
    }

    /// Probes once, within the probe's timeout.
    func run() async -> ProbeFinding {
        await deadline.within {
            switch method {
            case .http(let probe): try await probe.run()
            case .tcp(let probe): try await probe.run()
            }
        }
    }

    /// Returns whether two URLs have the same scheme, host and port.
    private static func isSameServer(_ probeURL: String, _ url: String?) -> Bool {
        guard let probeURL = URL(string: probeURL), let url = url.flatMap({ URL(string: $0) }) else { return false }
        func port(_ url: URL) -> Int { url.port ?? HTTPOrigin.standardPort(isTLS: url.scheme?.lowercased() == "https") }
        return probeURL.scheme?.lowercased() == url.scheme?.lowercased() && probeURL.host?.lowercased() == url.host?.lowercased()
            && port(probeURL) == port(url)
    }

    /// Returns the URL to request: a path below the service's URL, or the address itself if it is a URL.
    private static func url(_ address: String, below base: String?) throws(SidecarError) -> String {
        guard address.hasPrefix("/") else { return address }
        guard let base else { throw SidecarError("the probe's path needs the service's url, which is not set") }
        return (base.hasSuffix("/") ? String(base.dropLast()) : base) + address
    }
}

/// A probe that sends a `GET` on a new connection, so that it also tests connecting. It judges a redirect like any
/// other response, and does not follow it.
struct HTTPProbe: Sendable {
    let url: String
    let judge: ProbeJudge
    /// A file of certificates in PEM; `nil` for the system's.
    let certificateAuthority: String?
    /// Whether to use HTTP/2: over TLS if the server agrees, and always without TLS.
    let speaksHTTP2: Bool
    let settings: ProbeSettings
    let eventLoopGroup: any EventLoopGroup

    /// Sends the request and judges the response.
    /// - Throws: the error that prevented a complete response.
    func run() async throws -> ProbeFinding {
        guard let url = URL(string: url), let scheme = url.scheme?.lowercased(), let host = url.host, !host.isEmpty
        else { return .unjudged("the probe's URL cannot be used") }
        let isTLS = scheme == "https"
        let origin = HTTPOrigin(
            host: host, port: url.port ?? HTTPOrigin.standardPort(isTLS: isTLS),
            tls: isTLS
                ? try HTTPOrigin.clientTLS(certificateAuthority: certificateAuthority, speaksHTTP2: speaksHTTP2) : nil,
            speaksHTTP2: speaksHTTP2)
        // `ProbeDeadline` enforces the probe's timeout. These longer timeouts only clean up after it.
        let response = try await HTTPFetch.response(
            to: Self.request(url, origin), from: origin,
            settings: .init(
                connectTimeout: TimeAmount((settings.timeout + settings.interval) / 2), idleTimeout: .zero, maximumConnections: 1),
            maximumBytes: ProbeExpectation.inspectedBytes, within: TimeAmount(settings.timeout * 2), on: eventLoopGroup.any())
        return judge.judge(
            ProbeResponse(
                status: Int(response.head.status.code), headers: response.head.headers.map { ($0.name, $0.value) },
                body: Array(response.body.readableBytesView), isTruncated: response.isTruncated))
    }

    private static func request(_ url: URL, _ origin: HTTPOrigin) -> HTTPRequestHead {
        let path = url.path(percentEncoded: true)
        let query = url.query(percentEncoded: true).map { "?" + $0 } ?? ""
        var headers: HTTPHeaders = [
            "Host": origin.authority, "User-Agent": "interlock/\(SidecarVersion.current)", "Accept": "*/*",
            "Accept-Encoding": "identity", "Cache-Control": "no-cache",
        ]
        // HTTP/2 does not allow the `Connection` field (RFC 9113, section 8.2.2).
        if !origin.speaksHTTP2 { headers.add(name: "Connection", value: "close") }
        return HTTPRequestHead(
            version: .http1_1, method: .GET, uri: (path.isEmpty ? "/" : path) + query, headers: headers)
    }
}

/// A probe that opens and closes a connection.
struct TCPProbe: Sendable {
    let host: String
    let port: Int
    let timeout: Duration
    let eventLoopGroup: any EventLoopGroup

    /// Connects and closes the connection.
    /// - Throws: the error that prevented the connection.
    func run() async throws -> ProbeFinding {
        let attempts = ConnectionAttempts()
        // A separate promise lets a cancellation take effect during name resolution, which cannot be stopped.
        let outcome = eventLoopGroup.any().makePromise(of: (any Channel).self)
        let connection = ClientBootstrap(group: eventLoopGroup)
            // `ProbeDeadline` enforces the probe's timeout. This longer timeout only cleans up after it.
            .connectTimeout(TimeAmount(timeout * 2))
            .channelInitializer { channel in
                attempts.add(channel)
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .connect(host: host, port: port)
        connection.cascade(to: outcome)
        try await withTaskCancellationHandler {
            let channel = try await outcome.futureResult.get()
            // The cancellation handler may have closed the channel already.
            try? await channel.close()
        } onCancel: {
            attempts.cancel()
            outcome.fail(CancellationError())
        }
        return .good
    }
}

/// The concurrent connection attempts of a probe, one for each address. They are cancelled together.
private final class ConnectionAttempts: Sendable {
    private struct State {
        var channels: [any Channel] = []
        var isCancelled = false
    }

    private let state = NIOLockedValueBox(State())

    func add(_ channel: any Channel) {
        let isCancelled = state.withLockedValue { state in
            state.channels.append(channel)
            return state.isCancelled
        }
        if isCancelled { channel.close(promise: nil) }
    }

    func cancel() {
        let channels = state.withLockedValue { state in
            state.isCancelled = true
            return state.channels
        }
        for channel in channels { channel.close(promise: nil) }
    }
}

/// The response to an HTTP probe.
package struct ProbeResponse: Sendable {
    var status: Int
    var headers: [(name: String, value: String)]
    /// The beginning of the body, up to `ProbeExpectation.inspectedBytes`.
    var body: [UInt8]
    /// Whether the rest of the body is missing, because it is too long.
    var isTruncated: Bool

    package init(status: Int, headers: [(name: String, value: String)], body: [UInt8], isTruncated: Bool) {
        self.status = status
        self.headers = headers
        self.body = body
        self.isTruncated = isTruncated
    }

    /// Returns the values of a header, one for each occurrence.
    func values(of name: String) -> [String] {
        headers.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    }
}
