internal import FoundationEssentials

/// The servers of a cluster from which a client first learns its slot map.
package struct ClusterSettings: Hashable, Sendable {
    /// Some servers of the cluster, or an endpoint that resolves to them: at least one, without duplicates.
    package var seeds: [RedisConfiguration.Address]

    package init(seeds: [RedisConfiguration.Address]) {
        self.seeds = seeds
    }

    /// The default port of a server.
    package static let standardPort = 6379
    /// The maximum number of servers that a configuration can name. The cluster reports the others.
    package static let maximumCount = 50

    /// Parses `host[:port]`.
    package static func seed(_ text: String) throws(RedisURLError) -> RedisConfiguration.Address {
        try HostListURL.address(text, standardPort: standardPort, of: "a cluster server")
    }

    /// Checks the servers.
    /// - Throws: `RedisURLError` if there is no server, there are too many, or one is listed twice.
    package func check() throws(RedisURLError) {
        guard (1...Self.maximumCount).contains(seeds.count) else {
            throw RedisURLError(reason: "it names \(seeds.count) servers; 1 to \(Self.maximumCount) are allowed")
        }
        guard Set(seeds).count == seeds.count else { throw RedisURLError(reason: "it names a server twice") }
    }

    /// Parses `redis+cluster://[[user]:password@]host[:port],…`, the same with `rediss+cluster://` for TLS.
    static func configuration(_ url: HostListURL) throws(RedisURLError) -> RedisConfiguration {
        let path = url.components.path.drop { $0 == "/" }
        guard path.isEmpty || path == "0" else { throw RedisURLError(reason: "a cluster has only database 0") }
        guard url.components.queryItems == nil else { throw RedisURLError(reason: "it has a query, which is not supported") }
        var settings = ClusterSettings(seeds: [])
        for host in url.hosts { settings.seeds.append(try Self.seed(host)) }
        try settings.check()
        return try url.configuration(address: .cluster(of: settings), database: "")
    }
}
