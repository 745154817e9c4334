internal import FoundationEssentials

/// The Sentinels to query, and the name of the primary that they monitor.
package struct SentinelSettings: Hashable, Sendable {
    /// The addresses of the Sentinels. At least one, without duplicates.
    package var sentinels: [RedisConfiguration.Address]
    /// The name of the primary in the Sentinels' configuration.
    package var primary: String
    /// The ACL user for the Sentinels. If `nil` and there is a password, the user is `default`.
    package var username: String?
    /// The password for the Sentinels, separate from that for the servers.
    package var password: String?

    package init(sentinels: [RedisConfiguration.Address], primary: String) {
        self.sentinels = sentinels
        self.primary = primary
    }

    /// The default port of a Sentinel.
    package static let standardPort = 26379
    /// The maximum number of Sentinels.
    package static let maximumCount = 15

    /// Parses `host[:port]`.
    package static func sentinel(_ text: String) throws(RedisURLError) -> RedisConfiguration.Address {
        // The host is converted to lower case, because a Sentinel with two spellings would have two votes.
        try HostListURL.address(text, standardPort: standardPort, of: "a Sentinel")
    }

    /// Returns whether `text` is a valid name of a primary: 1–255 letters, digits, dots, dashes and underscores, as
    /// Sentinel requires.
    package static func isName(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count)
            && text.unicodeScalars.allSatisfy {
                $0.isASCII && ($0.properties.isAlphabetic || "0123456789.-_".unicodeScalars.contains($0))
            }
    }

    /// Checks the Sentinels and the primary's name.
    /// - Throws: `RedisURLError` if there is no Sentinel, there are too many, one is listed twice, or the primary has
    ///   no valid name.
    package func check() throws(RedisURLError) {
        guard Self.isName(primary) else {
            throw RedisURLError(
                reason: primary.isEmpty
                    ? "it does not name the primary; write redis+sentinel://HOST,HOST/NAME"
                    : "a primary's name must be 1–255 letters, digits, dots, dashes or underscores")
        }
        guard (1...Self.maximumCount).contains(sentinels.count) else {
            throw RedisURLError(reason: "it names \(sentinels.count) Sentinels; 1 to \(Self.maximumCount) are allowed")
        }
        guard Set(sentinels).count == sentinels.count else { throw RedisURLError(reason: "it names a Sentinel twice") }
    }
}

extension SentinelSettings {
    /// Parses
    /// `redis+sentinel://[[user]:password@]host[:port],…/NAME[/database][?sentinel_username=…&sentinel_password=…]`,
    /// the same with `rediss+sentinel://` for TLS.
    static func configuration(_ url: HostListURL) throws(RedisURLError) -> RedisConfiguration {
        let path = url.components.path.split(separator: "/", omittingEmptySubsequences: true)
        guard path.count <= 2 else {
            throw RedisURLError(reason: "only the primary's name and the database may follow the hosts")
        }
        var settings = SentinelSettings(sentinels: [], primary: path.first.map { String($0) } ?? "")
        for host in url.hosts { settings.sentinels.append(try Self.sentinel(host)) }
        for item in url.components.queryItems ?? [] {
            switch item.name {
            case "sentinel_username": settings.username = item.value
            case "sentinel_password": settings.password = item.value
            default: throw RedisURLError(reason: "only the parameters sentinel_username and sentinel_password are allowed")
            }
        }
        try settings.check()
        return try url.configuration(address: .primary(of: settings), database: path.count == 2 ? String(path[1]) : "")
    }
}
