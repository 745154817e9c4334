internal import FoundationEssentials
internal import Glibc
package import Hiredis
public import InterlockCore

/// What a coordinator needs to know: which Redis, and which locks and services it looks after.
public struct InterlockConfiguration: Sendable {
    package var redis: RedisConfiguration
    /// Independent servers of which a majority grants each lock, at least three; empty: locks are in `redis`.
    package var quorum: [RedisConfiguration]
    /// The prefix of all keys unless another is given.
    public static let defaultPrefix = "interlock:"

    /// What every key begins with; programs and sidecars with the same Redis, database and prefix are one fleet.
    public var prefix: String
    /// The bounds of every lock.
    public var locks: LockSettings
    /// The services whose limits and breakers are shared with the fleet.
    public var services: [ServiceDefinition]
    /// The least number of programs and sidecars to assume when Redis is away: each grants its share of the limits then.
    public var fleetSize: Int
    /// Shown to the fleet, and the label of owners that give none.
    public var host: String
    /// Shown to the fleet.
    public var version: String

    /// A configuration for the Redis at a URL.
    ///
    /// - Parameters:
    ///   - url: `redis://[[user]:password@]host[:port][/database]`, the same with `rediss://` for TLS, or
    ///     `unix://[[user]:password@]/path[?db=database]`.
    ///   - quorum: URLs of independent servers of which a majority grants each lock, at least three; empty: locks are in the
    ///     one Redis.
    ///   - timeout: how long a command may wait for Redis' reply, and a connection for its login.
    ///   - host: shown to the fleet, and the label of owners that give none; by default this host's name.
    /// - Throws: `InterlockError` with `invalid` when a URL or a service cannot be used.
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
        guard servers.isEmpty || servers.count >= 3 else {
            throw InterlockError(
                .invalid, "a quorum of \(servers.count) servers: no majority is left when one is down; name at least 3")
        }
        try services.check()
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
        fleetSize: Int = 1,
        host: String = InterlockConfiguration.hostName,
        version: String = "unknown"
    ) {
        self.redis = redis
        self.quorum = quorum
        self.prefix = prefix
        self.locks = locks
        self.services = services
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

extension [ServiceDefinition] {
    /// - Throws: `InterlockError` for what no coordinator can work with: what the sidecar's configuration refuses by itself.
    func check() throws(InterlockError) {
        var names: Set<String> = []
        for service in self {
            func require(_ condition: Bool, _ what: String) throws(InterlockError) {
                guard condition else { throw InterlockError(.invalid, "the service \"\(service.name)\": \(what)") }
            }
            do {
                _ = try ResourceName(service.name)
            } catch {
                throw InterlockError(.invalid, "a service's name: \(error)")
            }
            try require(names.insert(service.name).inserted, "it is defined twice")
            try require(service.concurrency ?? 1 > 0, "concurrency must be 1 or more, or nil")
            try require(service.maximumSubjects > 0, "maximumSubjects must be 1 or more")
            try require(service.permitLifetime >= .milliseconds(1), "permitLifetime must be 1 ms or more")
            try require(
                (0...1).contains(service.breaker.failureRate) && (0...1).contains(service.breaker.slowRate),
                "the breaker's rates are between 0 and 1")
            try require(
                service.breaker.minimumCalls > 0 && service.breaker.halfOpenPermits > 0 && service.breaker.reporters > 0,
                "the breaker's minimumCalls, halfOpenPermits and reporters must be 1 or more")
            try require(service.breaker.openFor.lowerBound >= .milliseconds(1), "the breaker's openFor must be 1 ms or more")
            var limits: Set<String> = []
            for limit in service.limits {
                try require(
                    !limit.name.isEmpty && !limit.name.unicodeScalars.contains { LimitDefinition.forbiddenInNames.contains($0) },
                    "a limit's name is not empty and has neither : nor ~")
                try require(limits.insert(limit.name).inserted, "the limit \"\(limit.name)\" is defined twice")
                try require(limit.window >= .milliseconds(1), "the window of the limit \"\(limit.name)\" must be 1 ms or more")
                let largest =
                    switch limit.algorithm {
                    case .fixed: LimitDefinition.largestLimit
                    case .sliding: LimitDefinition.largestSlidingLimit
                    case .gcra: LimitDefinition.largestSmoothLimit
                    }
                try require(
                    (1...largest).contains(limit.limit), "the limit \"\(limit.name)\" must allow between 1 and \(largest)")
                if case .gcra(let burst) = limit.algorithm {
                    try require(
                        (0...LimitDefinition.largestBurst).contains(burst),
                        "the burst of the limit \"\(limit.name)\" must be between 0 and \(LimitDefinition.largestBurst)")
                }
            }
        }
    }
}
