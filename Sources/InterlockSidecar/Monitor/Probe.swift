internal import AsyncHTTPClient
internal import InterlockCore
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL

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
    /// - Throws: what is wrong with the settings; a configuration that was read has nothing wrong with it.
    init(_ settings: ProbeSettings, url: String?, certificateAuthority: String?, clients: ProbeClients) throws {
        deadline = ProbeDeadline(timeout: settings.timeout, eventLoopGroup: clients.eventLoopGroup)
        switch settings.target {
        case .http(let address):
            method = .http(
                HTTPProbe(
                    url: try Self.url(address, below: url), judge: try ProbeJudge(settings.expectation),
                    certificateAuthority: certificateAuthority, timeout: settings.timeout, client: clients.client(for: settings)))
        case .tcp(let host, let port):
            method = .tcp(
                TCPProbe(host: host, port: port, timeout: settings.timeout, eventLoopGroup: clients.eventLoopGroup))
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

    /// A path below the service's URL, or a whole URL.
    private static func url(_ address: String, below base: String?) throws(SidecarError) -> String {
        guard address.hasPrefix("/") else { return address }
        guard let base else { throw SidecarError("a path is asked below the service's url, which is not given") }
        return (base.hasSuffix("/") ? String(base.dropLast()) : base) + address
    }
}

/// A `GET` on a connection of its own, so that connecting is probed too.
struct HTTPProbe: Sendable {
    let url: String
    let judge: ProbeJudge
    /// A file of certificates in PEM; `nil`: the system's.
    let certificateAuthority: String?
    let timeout: Duration
    let client: HTTPClient

    /// - Throws: whatever kept the answer from coming whole.
    func ask() async throws -> ProbeFinding {
        var request = HTTPClientRequest(url: url)
        request.headers = [
            "User-Agent": "interlock/\(SidecarVersion.current)", "Accept": "*/*", "Accept-Encoding": "identity",
            "Cache-Control": "no-cache", "Connection": "close",
        ]
        if let certificateAuthority {
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.trustRoots = .file(certificateAuthority)
            request.tlsConfiguration = configuration
        }
        // Not the deadline of the probe, which is kept elsewhere: what is left behind after that one.
        let response = try await client.execute(request, timeout: TimeAmount(timeout * 2))
        var body: [UInt8] = []
        var isCut = false
        for try await part in response.body {
            body += part.readableBytesView
            guard body.count <= ProbeExpectation.inspectedBytes else {
                body.removeLast(body.count - ProbeExpectation.inspectedBytes)
                isCut = true
                break
            }
        }
        return judge.judge(
            ProbeAnswer(
                status: Int(response.status.code), headers: response.headers.map { ($0.name, $0.value) }, body: body, isCut: isCut
            ))
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
