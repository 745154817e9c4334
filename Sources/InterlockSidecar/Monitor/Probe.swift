internal import InterlockCore

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
