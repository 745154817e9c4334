internal import FoundationEssentials
internal import Glibc
public import InterlockCore
package import RedisClient

/// What a coordinator needs to know: which Redis, and which locks and services it looks after.
public struct InterlockConfiguration: Sendable {
    package var redis: RedisConfiguration
    /// Independent servers of which a majority grants each lock, at least three; empty: locks are in `redis`.
    package var quorum: [RedisConfiguration]
    /// Whether `redis` was started for this coordinator and is unreachable for other hosts.
    package var hasPrivateRedis = false
    /// The prefix of all keys unless another is given.
    public static let defaultPrefix = "interlock:"
    package static let quorumSizes = 3...15
    package static let timeouts: ClosedRange<Duration> = .milliseconds(10) ... .seconds(60)

    /// What every key begins with; programs and sidecars with the same Redis, database and prefix are one fleet.
    public var prefix: String
    /// The bounds of every lock.
    public var locks: LockSettings
    /// The services whose limits and breakers are shared with the fleet.
    public var services: [ServiceDefinition]
    /// What Envoy's rate limit service is asked about.
    package var domains = DomainSettings()
    /// The least number of programs and sidecars to assume when Redis is away: each grants its share of the limits then.
    public var fleetSize: Int
    /// So many may be assumed.
    package static let fleetSizes = 1...10_000
    /// Shown to the fleet, and the label of owners that give none.
    public var host: String
    /// Shown to the fleet.
    public var version: String

    /// A configuration for the Redis at a URL.
    ///
    /// - Parameters:
    ///   - url: `redis://[[user]:password@]host[:port][/database]`, the same with `rediss://` for TLS,
    ///     `unix://[[user]:password@]/path[?db=database]`, or Sentinels and what they call the primary:
    ///     `redis+sentinel://[[user]:password@]host[:port],…/name[/database][?sentinel_username=…&sentinel_password=…]`.
    ///   - quorum: URLs of independent servers of which a majority grants each lock, at least three; empty: locks are in the
    ///     one Redis.
    ///   - timeout: how long a command may wait for Redis' reply, and a connection for its login.
    ///   - prefix: what all keys begin with; another prefix is another fleet.
    ///   - locks: the bounds of all locks.
    ///   - services: the services whose limits and breakers are shared.
    ///   - fleetSize: the least number of programs and sidecars to assume while Redis is away.
    ///   - host: shown to the fleet, and the label of owners that give none; by default this host's name.
    ///   - version: of the program; shown to the fleet.
    /// - Throws: `InterlockError` with `invalid` when a URL, a bound of the locks or a service cannot be used.
    public init(
        redis url: String, quorum: [String] = [], timeout: Duration = .milliseconds(500),
        prefix: String = Self.defaultPrefix, locks: LockSettings = LockSettings(), services: [ServiceDefinition] = [],
        fleetSize: Int = 1, host: String = InterlockConfiguration.hostName, version: String = "unknown"
    ) throws(InterlockError) {
        func server(_ url: String) throws(InterlockError) -> RedisConfiguration {
            do throws(RedisURLError) {
                var server = try RedisConfiguration(url: url)
                server.commandTimeout = timeout
                server.connectTimeout = timeout
                return server
            } catch {
                throw InterlockError(.invalid, "\(error)")
            }
        }
        let redis = try server(url)
        var servers: [RedisConfiguration] = []
        for url in quorum { servers.append(try server(url)) }
        func require(_ condition: Bool, _ message: @autoclosure () -> String) throws(InterlockError) {
            guard condition else { throw InterlockError(.invalid, message()) }
        }
        try require(
            servers.allSatisfy { server in
                switch server.address {
                case .host, .unixSocket: true
                case .primary, .cluster: false
                }
            },
            "a quorum is of servers that fail by themselves, not of primaries whose place another takes")
        try require(
            servers.isEmpty || Self.quorumSizes.contains(servers.count),
            "a quorum of \(servers.count) servers: expected \(Self.quorumSizes.lowerBound) to \(Self.quorumSizes.upperBound); "
                + "with fewer no majority is left when one is down")
        try require(
            Self.timeouts.contains(timeout),
            "timeout: expected \(Self.timeouts.lowerBound) to \(Self.timeouts.upperBound), got \(timeout)")
        if let expected = ResourceName.expectedPrefix(insteadOf: prefix, isEmptyAllowed: false) {
            throw InterlockError(.invalid, "prefix: expected \(expected), got \"\(Excerpt(prefix))\"")
        }
        do throws(ResourceName.Violation) {
            _ = try ResourceName(host)
        } catch {
            throw InterlockError(.invalid, "host, the label of owners that give none: \(error.message(for: "label"))")
        }
        do throws(DefinitionError) {
            try locks.check()
            try services.check()
        } catch {
            throw InterlockError(error)
        }
        self.init(
            redis: redis, quorum: servers, prefix: prefix, locks: locks, services: services, fleetSize: max(1, fleetSize),
            host: host, version: version)
    }

    package init(
        redis: RedisConfiguration,
        quorum: [RedisConfiguration] = [],
        prefix: String = KeySpace.defaultPrefix,
        locks: LockSettings = LockSettings(),
        services: [ServiceDefinition] = [],
        domains: DomainSettings = DomainSettings(),
        fleetSize: Int = 1,
        host: String = InterlockConfiguration.hostName,
        version: String = "unknown"
    ) {
        self.redis = redis
        self.quorum = quorum
        self.prefix = prefix
        self.locks = locks
        self.services = services
        self.domains = domains
        self.fleetSize = fleetSize
        self.host = host
        self.version = version
    }

    /// This host's name as a label: what a label may not contain becomes a dash.
    public static var hostName: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "localhost" }
        let bytes = buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        let name = String(decoding: bytes, as: UTF8.self).map { character in
            character.isLetter || character.isNumber || "-._".contains(character) ? character : "-"
        }
        return name.isEmpty ? "localhost" : String(name)
    }
}

extension InterlockError {
    /// What no coordinator can work with.
    init(_ error: DefinitionError) { self.init(.invalid, error.description) }
}
