internal import FoundationEssentials
internal import InterlockCore
internal import InterlockHTTP
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import SidecarSettings

/// One service's probe, ready to be made again and again.
struct Probe: Sendable {
    private enum Method: Sendable {
        case http(HTTPProbe)
        case tcp(TCPProbe)
    }

    private let method: Method
    private let deadline: ProbeDeadline

    /// - Parameters:
    ///   - url: the service's; what a path is asked below.
    ///   - certificateAuthority: a file of certificates in PEM; `nil`: the system's.
    ///   - speaksHTTP2: whether the proxy calls the service with HTTP/2; a probe of the same server then does so too.
    /// - Throws: what is wrong with the settings; a configuration that was read has nothing wrong with it.
    init(
        _ settings: ProbeSettings, url: String?, certificateAuthority: String?, speaksHTTP2: Bool = false,
        eventLoopGroup: any EventLoopGroup
    ) throws {
        deadline = ProbeDeadline(timeout: settings.timeout, eventLoopGroup: eventLoopGroup)
        switch settings.target {
        case .http(let address):
            let asked = try Self.url(address, below: url)
            method = .http(
                HTTPProbe(
                    url: asked, judge: try ProbeJudge(settings.expectation), certificateAuthority: certificateAuthority,
                    speaksHTTP2: speaksHTTP2 && Self.isSameServer(asked, url), settings: settings,
                    eventLoopGroup: eventLoopGroup))
        case .tcp(let host, let port):
            method = .tcp(TCPProbe(host: host, port: port, timeout: settings.timeout, eventLoopGroup: eventLoopGroup))
        }
    }

    /// Asks once. Bounded by the probe's timeout.
    func ask() async -> ProbeFinding {
        await deadline.within {
            switch method {
            case .http(let probe): try await probe.ask()
            case .tcp(let probe): try await probe.ask()
            }
        }
    }

    private static func isSameServer(_ asked: String, _ url: String?) -> Bool {
        guard let asked = URL(string: asked), let url = url.flatMap({ URL(string: $0) }) else { return false }
        func port(_ url: URL) -> Int { url.port ?? HTTPOrigin.standardPort(isTLS: url.scheme?.lowercased() == "https") }
        return asked.scheme?.lowercased() == url.scheme?.lowercased() && asked.host?.lowercased() == url.host?.lowercased()
            && port(asked) == port(url)
    }

    /// A path below the service's URL, or a whole URL.
    private static func url(_ address: String, below base: String?) throws(SidecarError) -> String {
        guard address.hasPrefix("/") else { return address }
        guard let base else { throw SidecarError("a path is asked below the service's url, which is not given") }
        return (base.hasSuffix("/") ? String(base.dropLast()) : base) + address
    }
}

/// A `GET` on a connection of its own, so that connecting is probed too. Redirects are judged and not followed.
struct HTTPProbe: Sendable {
    let url: String
    let judge: ProbeJudge
    /// A file of certificates in PEM; `nil`: the system's.
    let certificateAuthority: String?
    /// Over TLS only if the server agrees; without TLS always.
    let speaksHTTP2: Bool
    let settings: ProbeSettings
    let eventLoopGroup: any EventLoopGroup

    /// - Throws: whatever kept the answer from coming whole.
    func ask() async throws -> ProbeFinding {
        guard let url = URL(string: url), let scheme = url.scheme?.lowercased(), let host = url.host, !host.isEmpty
        else { return .unjudged("the probe's URL cannot be used") }
        let isTLS = scheme == "https"
        let origin = HTTPOrigin(
            host: host, port: url.port ?? HTTPOrigin.standardPort(isTLS: isTLS),
            tls: isTLS
                ? try HTTPOrigin.clientTLS(certificateAuthority: certificateAuthority, speaksHTTP2: speaksHTTP2) : nil,
            speaksHTTP2: speaksHTTP2)
        // Not the probe's own deadline, which is kept elsewhere: what is left behind after that one, until before the next probe.
        let answer = try await HTTPFetch.answer(
            to: Self.request(url, origin), from: origin,
            settings: .init(
                connectTimeout: TimeAmount((settings.timeout + settings.interval) / 2), idleTimeout: .zero, mostConnections: 1),
            mostBytes: ProbeExpectation.inspectedBytes, within: TimeAmount(settings.timeout * 2), on: eventLoopGroup.any())
        return judge.judge(
            ProbeAnswer(
                status: Int(answer.head.status.code), headers: answer.head.headers.map { ($0.name, $0.value) },
                body: Array(answer.body.readableBytesView), isCut: answer.isCut))
    }

    private static func request(_ url: URL, _ origin: HTTPOrigin) -> HTTPRequestHead {
        let path = url.path(percentEncoded: true)
        let query = url.query(percentEncoded: true).map { "?" + $0 } ?? ""
        var headers: HTTPHeaders = [
            "Host": origin.authority, "User-Agent": "interlock/\(SidecarVersion.current)", "Accept": "*/*",
            "Accept-Encoding": "identity", "Cache-Control": "no-cache",
        ]
        // HTTP/2 has no such field (RFC 9113, section 8.2.2).
        if !origin.speaksHTTP2 { headers.add(name: "Connection", value: "close") }
        return HTTPRequestHead(
            version: .http1_1, method: .GET, uri: (path.isEmpty ? "/" : path) + query, headers: headers)
    }
}

/// A connection that is made and closed.
struct TCPProbe: Sendable {
    let host: String
    let port: Int
    let timeout: Duration
    let eventLoopGroup: any EventLoopGroup

    /// - Throws: whatever kept the connection from standing.
    func ask() async throws -> ProbeFinding {
        let attempts = ConnectionAttempts()
        // Ends also while the name is still being resolved, which nothing stops.
        let ended = eventLoopGroup.any().makePromise(of: (any Channel).self)
        let connected = ClientBootstrap(group: eventLoopGroup)
            // Not the deadline of the probe, which is kept elsewhere: what is left behind after that one.
            .connectTimeout(TimeAmount(timeout * 2))
            .channelInitializer { channel in
                attempts.add(channel)
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .connect(host: host, port: port)
        connected.cascade(to: ended)
        try await withTaskCancellationHandler {
            let channel = try await ended.futureResult.get()
            // Closed by whoever is first, and who comes second need not know.
            try? await channel.close()
        } onCancel: {
            attempts.cancel()
            ended.fail(CancellationError())
        }
        return .good
    }
}

/// The connections that are being tried, one for each address, until all of them are to end.
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

/// What an HTTP probe was answered.
package struct ProbeAnswer: Sendable {
    var status: Int
    var headers: [(name: String, value: String)]
    /// At most what is looked at.
    var body: [UInt8]
    /// There was more of it.
    var isCut: Bool

    package init(status: Int, headers: [(name: String, value: String)], body: [UInt8], isCut: Bool) {
        self.status = status
        self.headers = headers
        self.body = body
        self.isCut = isCut
    }

    /// The values of a header, one for each time that it is there.
    func values(of name: String) -> [String] {
        headers.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    }
}
