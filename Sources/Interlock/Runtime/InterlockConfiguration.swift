internal import FoundationEssentials
internal import Glibc
public import InterlockCore
package import RedisClient

/// The configuration of a coordinator: its Redis, and the locks and services that it manages.
public struct InterlockConfiguration: Sendable {
    package var redis: RedisConfiguration
    /// The independent servers of which a majority grants each lock, at least three; empty if `redis` keeps the locks.
    package var quorum: [RedisConfiguration]
    /// Whether `redis` was started for this coordinator and cannot be reached from other hosts.
    package var hasEmbeddedRedis = false
    /// The default prefix of all keys.
    public static let defaultPrefix = "interlock:"
    package static let quorumSizeRange = 3...15
    package static let timeoutRange: ClosedRange<Duration> = .milliseconds(10) ... .seconds(60)

    /// The prefix of every key. Programs and sidecars with the same Redis, database and prefix form one fleet.
    public var prefix: String
    /// The limits that apply to every lock.
    public var locks: LockSettings
    /// The services whose limits and breakers are shared with the fleet.
    public var services: [ServiceDefinition]
    /// The rate limit domains, as used by Envoy's rate limit service.
    package var domains = DomainSettings()
    /// The minimum number of programs and sidecars to assume while Redis is unreachable. Each of them then grants its
    /// quota of the limits.
    public var fleetSize: Int
    /// The valid fleet sizes.
    package static let fleetSizeRange = 1...10_000
    /// The host name that the fleet sees. It is also the label of owners that give no label.
    public var host: String
    /// The version that the fleet sees.
    public var version: String

    /// Creates a configuration for the Redis server, Sentinels or cluster at a URL.
    ///
    /// - Parameters:
    ///   - url: `redis://[[user]:password@]host[:port][/database]`, the same with `rediss://` for TLS,
    ///     `unix://[[user]:password@]/path[?db=database]`, or Sentinels and their name for the primary:
    ///     `redis+sentinel://[[user]:password@]host[:port],…/name[/database][?sentinel_username=…&sentinel_password=…]`.
    ///   - quorum: URLs of independent servers of which a majority grants each lock, at least three; empty to keep the
    ///     locks at `url`.
    ///   - timeout: the maximum wait for a reply from Redis, and for the login of a connection.
    ///   - prefix: the prefix of all keys; a different prefix makes a different fleet.
    ///   - locks: the limits that apply to all locks.
    ///   - services: the services whose limits and breakers are shared.
    ///   - fleetSize: the minimum number of programs and sidecars to assume while Redis is unreachable.
    ///   - host: the host name that the fleet sees, and the label of owners that give no label; by default this host's
    ///     name.
    ///   - version: the version of the program that the fleet sees.
    /// - Throws: `InterlockError` with `invalid` if a URL, a limit of the locks or a service cannot be used.
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
            "a quorum needs independent servers, not Sentinels or clusters")
        try require(
            servers.isEmpty || Self.quorumSizeRange.contains(servers.count),
            "expected a quorum of \(Self.quorumSizeRange.lowerBound) to \(Self.quorumSizeRange.upperBound) servers, "
                + "got \(servers.count); with fewer, no majority is left when one is down")
        try require(
            Self.timeoutRange.contains(timeout),
            "timeout: expected \(Self.timeoutRange.lowerBound) to \(Self.timeoutRange.upperBound), got \(timeout)")
        if let expected = ResourceName.expectedPrefix(insteadOf: prefix, isEmptyAllowed: false) {
            throw InterlockError(.invalid, "prefix: expected \(expected), got \"\(Excerpt(prefix))\"")
        }
        do throws(ResourceName.Violation) {
            _ = try ResourceName(host)
        } catch {
            throw InterlockError(.invalid, "host, the default label: \(error.message(for: "label"))")
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

    /// The name of this host as a label. Characters that a label may not contain become dashes.
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
    /// Creates an error for a definition that a coordinator cannot use.
    init(_ error: DefinitionError) { self.init(.invalid, error.description) }
}
