import Interlock
import InterlockCore
package import RedisClient

extension LockSettings {
    /// The default of `locks.min_ttl`. A request for a shorter lease usually confuses seconds with milliseconds.
    static let defaultMinimumTTL = Duration.milliseconds(100)
    static let waitReplicasPath = "locks.wait_replicas"

    /// Reads `locks`: `key_prefix`, `min_ttl`, `max_ttl`, `max_wait`, `max_hold`, `wait_replicas` and `fence_ttl`.
    mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.readOptional("key_prefix", into: &keyPrefix) {
                $0.parsed { ResourceName.expectedPrefix(insteadOf: $0, isEmptyAllowed: true) }
            }
            section.read("max_ttl", into: &maximumTTL) { $0.duration(in: Self.ttlRange) }
            let longestTTL = maximumTTL
            minimumTTL = min(minimumTTL, longestTTL)
            section.read("min_ttl", into: &minimumTTL) { value in
                guard let ttl = value.duration(in: Self.minimumTTLRange) else { return nil }
                guard ttl <= longestTTL else {
                    let limit = DurationText.shortest(longestTTL)
                    value.reject("expected at most locks.max_ttl (\(limit)), got \(DurationText.shortest(ttl))")
                    return nil
                }
                return ttl
            }
            section.read("max_wait", into: &maximumWait) { $0.duration(in: Self.waitRange) }
            section.readOptional("max_hold", into: &maximumHold) { $0.duration(in: Self.ttlRange) }
            section.read("fence_ttl", into: &fenceLifetime) { $0.duration(in: Self.fenceLifetimeRange) }
            section.read("wait_replicas", into: &waitReplicas) { value in
                value.findings.locations[Self.waitReplicasPath] = value.location
                return value.wholeNumber(in: Self.replicaCountRange)
            }
        }
    }
}

extension RedisSettings {
    static let urlsPath = "redis.urls"

    /// Reads `redis.urls`. Returns an empty list if a URL is invalid.
    static func quorum(_ value: ConfigurationValue) -> [String] {
        guard !value.isNull else { return [] }
        value.findings.locations[urlsPath] = value.location
        let sizeRange = InterlockConfiguration.quorumSizeRange
        guard case .sequence = value.node.content else {
            value.reject(expected: InvalidConfigurationValue("a list of \(sizeRange.lowerBound) or more URLs"))
            return []
        }
        let items = value.list()
        guard sizeRange.contains(items.count) else {
            value.reject(
                """
                expected \(sizeRange.lowerBound)-\(sizeRange.upperBound) servers, preferably an odd number, \
                got \(items.count); fewer have no majority when one is down
                """)
            return []
        }
        var urls: [String] = []
        var indices: [RedisConfiguration.Address: Int] = [:]
        for (index, item) in items.enumerated() {
            guard let url = item.parsed(by: checkedURL) else { continue }
            do throws(RedisURLError) {
                let address = try RedisConfiguration(url: url).address
                if let failover = address.failover {
                    item.reject("expected an independent server; a failover \(failover) can lose granted locks")
                    continue
                }
                if let firstIndex = indices[address] {
                    item.reject("the same server as \(urlsPath)[\(firstIndex)]; the servers must fail independently")
                    continue
                }
                indices[address] = index
                urls.append(url)
            } catch {
                item.reject("\(error)")
            }
        }
        return urls.count == items.count ? urls : []
    }
}

extension RedisConfiguration.Address {
    /// A description of the failover to this address; `nil` for a single server, which has none.
    fileprivate var failover: String? {
        switch self {
        case .primary: "by Sentinels"
        case .cluster: "in a cluster"
        default: nil
        }
    }
}

extension SidecarConfiguration {
    /// Rejects settings that conflict with `redis.urls`.
    ///
    /// Runs after the overrides are applied, because a flag may set a `redis.url` that the file lacks.
    func rejectUnsupportedQuorum(_ findings: ConfigurationFindings) {
        guard !redis.urls.isEmpty else { return }
        if redis.url == nil, !findings.hasProblem(under: "redis.url") {
            let otherData =
                services.isEmpty
                ? "events and the list of sidecars" : "limits, breakers, events and the list of sidecars"
            findings.reject(
                at: findings.locations[RedisSettings.urlsPath] ?? findings.wholeFile, path: RedisSettings.urlsPath,
                "requires redis.url, because the quorum stores only locks; \(otherData) are stored in redis.url")
        }
        if locks.waitReplicas > 0 {
            let path = LockSettings.waitReplicasPath
            findings.reject(
                at: findings.locations[path] ?? findings.wholeFile, path: path,
                """
                expected 0 with \(RedisSettings.urlsPath), whose majority replaces the wait for replicas, \
                got \(locks.waitReplicas)
                """)
        }
    }

    /// Returns the servers of `redis.urls` for the coordinator; empty if locks are stored in `redis.url`.
    /// - Throws: `SidecarError` if a URL cannot be used.
    package func quorumServers() throws(SidecarError) -> [RedisConfiguration] {
        var servers: [RedisConfiguration] = []
        for (index, url) in redis.urls.enumerated() {
            var server: RedisConfiguration
            do throws(RedisURLError) {
                server = try RedisConfiguration(url: url)
            } catch {
                throw SidecarError("\(RedisSettings.urlsPath)[\(index)]: \(error)")
            }
            if server.tls != nil, let tls = redis.tls { try tls.apply(to: &server) }
            server.commandTimeout = redis.timeout
            server.connectTimeout = redis.timeout
            servers.append(server)
        }
        return servers
    }
}
