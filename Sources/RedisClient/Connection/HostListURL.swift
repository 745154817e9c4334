internal import FoundationEssentials

/// A URL that names several hosts, `scheme://[[user]:password@]host[:port],…/path?query`. URL parsers reject more than
/// one host, so the hosts are split off first.
struct HostListURL {
    /// The scheme in lower case.
    let scheme: String
    /// The hosts as written; at least one.
    let hosts: [String]
    /// The URL without its hosts.
    let components: URLComponents

    /// Splits the URL; returns `nil` if its scheme is not one of `schemes`.
    init?(_ url: String, schemes: [String]) throws(RedisURLError) {
        guard let separator = url.firstRange(of: "://") else { return nil }
        scheme = url[..<separator.lowerBound].lowercased()
        guard schemes.contains(scheme) else { return nil }
        let afterScheme = url[separator.upperBound...]
        let authority = afterScheme.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        let hostList = authority.lastIndex(of: "@").map { authority[authority.index(after: $0)...] } ?? authority
        let suffix = afterScheme[hostList.endIndex...]
        guard !suffix.prefix(while: { $0 != "?" }).contains("@"),
            let components = URLComponents(
                string: "redis://\(afterScheme[..<hostList.startIndex])hosts\(suffix)"),
            components.fragment == nil
        else { throw RedisURLError(reason: "it is not a URL; percent-encode all special characters of the password") }
        hosts = hostList.split(separator: ",", omittingEmptySubsequences: false).map { String($0) }
        self.components = components
    }

    /// Returns the configuration with the URL's credentials, and with TLS if the scheme requires it.
    func configuration(address: RedisConfiguration.Address, database: String) throws(RedisURLError) -> RedisConfiguration {
        var configuration = RedisConfiguration(address: address)
        if scheme.hasPrefix("rediss") { configuration.tls = RedisConfiguration.standardTLS }
        try configuration.read(credentials: components, database: database)
        return configuration
    }

    /// Parses `host[:port]` and converts the host to lower case, so that each host has one spelling.
    /// - Parameter peer: the kind of peer, for the error message.
    static func address(
        _ text: String, standardPort: Int, of peer: String
    ) throws(RedisURLError) -> RedisConfiguration.Address {
        guard let components = URLComponents(string: "redis://\(text)"), components.path.isEmpty, components.user == nil,
            components.queryItems == nil,
            case .host(let host, let port) = try RedisConfiguration.Address(of: components, standardPort: standardPort)
        else { throw RedisURLError(reason: "\(peer) must be HOST[:PORT]") }
        return .host(host.lowercased(), port: port)
    }
}
