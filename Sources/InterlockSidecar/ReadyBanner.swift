import InterlockCore
package import SidecarSettings

/// The commands for trying a new sidecar, with its addresses and its certificate.
package struct ReadyBanner {
    private let addresses: Sidecar.Addresses
    private let configuration: SidecarConfiguration

    package init(_ addresses: Sidecar.Addresses, _ configuration: SidecarConfiguration) {
        self.addresses = addresses
        self.configuration = configuration
    }

    package var text: String {
        let listen = configuration.listen
        let scheme = listen.tls == nil ? "" : "https://"
        let http = "\(name(of: listen.http)):\(addresses.httpPort)"
        var lines = [
            "Interlock \(SidecarVersion.current) is ready.",
            "  RESP     \(auth)redis-cli\(tls("--tls --cacert"))\(host(of: listen.resp)) -p \(addresses.respPort) PING",
            "  HTTP     curl\(tls("--cacert")) -s \(scheme)\(http)/readyz",
            "  Console  \(scheme.isEmpty ? "http://" : scheme)\(http)/console",
        ]
        if let port = addresses.grpcPort, let grpc = listen.grpc {
            lines.append("  gRPC     \(name(of: grpc)):\(port)    (Envoy's rate limits, breakers and quotas)")
        }
        if let path = listen.unix { lines.append("  Unix     \(auth)redis-cli -s \(path) PING") }
        if let socket = addresses.embeddedRedis {
            lines.append("  Redis    redis-cli -s \(socket)    (private to this host; stops with the sidecar)")
        }
        return lines.joined(separator: "\n")
    }

    /// The assignment that passes a key to `redis-cli`; empty if no key is needed. The key itself must not be printed.
    private var auth: String { configuration.keys.isEmpty ? "" : "REDISCLI_AUTH=\"$INTERLOCK_API_KEY\" " }

    /// Returns TLS options that end with the path of the certificate; empty without TLS.
    private func tls(_ options: String) -> String { configuration.listen.tls.map { " \(options) \($0.certificate)" } ?? "" }

    /// Returns the host option of redis-cli; empty for the loopback address without TLS.
    private func host(of endpoint: SocketEndpoint) -> String {
        let name = name(of: endpoint)
        if configuration.listen.tls == nil && name == "localhost" { return "" }
        // Brackets belong only in URLs.
        return " -h \(name.hasPrefix("[") ? String(name.dropFirst().dropLast()) : name)"
    }

    /// Returns a name under which this host can call the sidecar. Prefers a name that the certificate covers, if there
    /// is one.
    private func name(of endpoint: SocketEndpoint) -> String {
        let literalHost = endpoint.host.contains(":") ? "[\(endpoint.host)]" : endpoint.host
        let isAnyAddress = ["0.0.0.0", "::"].contains(endpoint.host)
        let reachableName = isAnyAddress || endpoint.host == "127.0.0.1" ? "localhost" : literalHost
        guard let tls = configuration.listen.tls, let facts = CertificateFacts(file: tls.certificate) else {
            return reachableName
        }
        let candidates = [reachableName, literalHost] + configuration.listen.hosts + facts.names.filter { !$0.hasPrefix("*") }
        return candidates.first { facts.covers($0) } ?? reachableName
    }
}
