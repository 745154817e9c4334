internal import InterlockCore
internal import Logging
internal import RedisClient

/// Keeps this sidecar in the list of live sidecars by sending a heartbeat every few seconds. Confined to the
/// coordinator's event loop.
final class FleetCoordinator {
    static let lifetimeMilliseconds: Int64 = 15000

    private let runtime: CoordinatorRuntime
    let version: String
    private let startedAtSeconds: Int64
    /// The digest of this sidecar's current definitions.
    private var configuration: ConfigurationDigest
    /// The IDs of the live sidecars, including this one, as of the last reply from Redis.
    private(set) var members: [String] = []
    /// The last time that each sidecar was listed. After Redis has lost the list, it fills up again only gradually.
    private var lastSeen: [String: Instant] = [:]
    /// The number of sidecars among which limits are divided: those that were listed within the last
    /// `lifetimeMilliseconds` and have not left. While Redis is down, it does not change.
    private var size = 0 {
        didSet { runtime.fleetSizeChanged(to: size) }
    }
    /// The services that other live sidecars define differently.
    private(set) var differences: [ConfigurationDifference] = []
    /// The configuration digest of each other live sidecar, by ID. Sidecars of older versions are missing here.
    private var digests: [String: String] = [:]
    /// The definitions behind each digest. They are read only once for all sidecars that share the digest.
    private var definitions: [String: ConfigurationDigest] = [:]
    /// The maximum number of digests that are read per heartbeat, on average.
    private static let digestsPerHeartbeat = 16
    private var heartbeatsUntilComparison = 0
    /// The maximum number of sidecars named in one log line.
    private static let maximumNamed = 10
    /// The callers that wait for the current listing.
    private var pendingListings: [(Result<[FleetMember], RedisError>) -> Void] = []
    /// Whether Redis has the current description of this sidecar.
    private var isRegistered = false
    /// Whether this sidecar has left the list for good.
    private var isLeaving = false
    /// The fields of `INFO`, including the version and the eviction policy.
    private(set) var serverInfo: [String: String] = [:]
    /// The version of the server. For Valkey, its own version instead of the version of Redis that it is compatible
    /// with. `nil` if unknown.
    var redisVersion: String? { serverInfo["valkey_version"].map { "Valkey \($0)" } ?? serverInfo["redis_version"] }
    /// The reason why this sidecar cannot use its Redis; `nil` if it can.
    var unusableReason: String? {
        serverInfo["cluster_enabled"] == "1" && !runtime.keys.isOnCluster ? CoordinatorLogEvent.redisIsCluster.line.message : nil
    }

    init(runtime: CoordinatorRuntime, version: String, configuration: ConfigurationDigest) {
        self.runtime = runtime
        self.version = version
        self.configuration = configuration
        startedAtSeconds = runtime.wallClock.milliseconds() / 1000
    }

    /// Publishes this sidecar's description and reads the server's `INFO`, because a server is connected again.
    func redisReconnected(at server: RedisConfiguration.Address) {
        // No heartbeat was visible during the outage, so every known sidecar gets its full time to report again.
        let now = runtime.time.now()
        for member in lastSeen.keys { lastSeen[member] = now }
        register()
        guard let connection = runtime.pipeline.connections.first(where: { $0.address == server }) else { return }
        connection.send(Info(section: "everything")) { [self] result in
            guard case .success(let fields) = result else { return }
            serverInfo = fields
            if unusableReason != nil { runtime.logger.log(.redisIsCluster, ["redis": runtime.redisName]) }
            guard let policy = fields["maxmemory_policy"], policy != "noeviction" else { return }
            runtime.logger.log(.redisEvicts, ["policy": policy])
        }
    }

    /// Publishes the new digest after services or domains were reloaded.
    func publishConfiguration(_ new: ConfigurationDigest) {
        guard new != configuration else { return }
        configuration = new
        compare()
        if runtime.pipeline.isUp { register() }
    }

    /// The fields of a member's hash.
    fileprivate enum Field {
        static let host = "host"
        static let processID = "pid"
        static let version = "version"
        /// The start time as Unix time in seconds, by the sidecar's own clock.
        static let started = "started"
        static let configuration = "configuration"
        /// See `ConfigurationDigest.text`.
        static let services = "services"
    }

    private func register() {
        guard !isLeaving else { return }
        isRegistered = false
        heartbeatsUntilComparison = 0
        let fields: [(name: String, value: String)] = [
            (Field.host, runtime.host), (Field.processID, "\(runtime.processID)"), (Field.version, version),
            (Field.started, "\(startedAtSeconds)"), (Field.configuration, configuration.combined),
            (Field.services, configuration.text),
        ]
        let key = runtime.keys.fleetMember(runtime.id)
        runtime.pipeline.send(SetFields(key: key, fields: fields)) { [self] result in
            // After a failure, a later heartbeat tries again.
            guard case .success = result else { return }
            isRegistered = true
            extend { _ in }
        }
        sendHeartbeat()
    }

    /// Sends a heartbeat and extends this sidecar's hash.
    func heartbeat() {
        guard runtime.pipeline.isUp else { return }
        guard isRegistered else { return register() }
        sendHeartbeat()
        extend { [self] result in
            // Redis has lost the hash, so it is published again.
            if case .success(false) = result { register() }
        }
    }

    private func sendHeartbeat(then done: @escaping (RedisError?) -> Void = { _ in }) {
        guard !isLeaving else { return done(nil) }
        let includesDigests = countHeartbeatTowardsComparison()
        let script = script(lifetimeMilliseconds: Self.lifetimeMilliseconds, includesDigests: includesDigests)
        runtime.pipeline.send(script) { [self] result in
            switch result {
            case .failure(let error):
                // The next heartbeat asks for the digests instead.
                if includesDigests { heartbeatsUntilComparison = 0 }
                done(error)
            case .success(let reply):
                members = reply.members
                let now = runtime.time.now()
                for member in members { lastSeen[member] = now }
                dropExpired(now: now)
                if let digests = reply.digests { update(digests) }
                done(nil)
            }
        }
    }

    /// Returns whether this heartbeat requests the digests. Redis reads a hash for each sidecar, so in a large fleet
    /// only some heartbeats request them.
    private func countHeartbeatTowardsComparison() -> Bool {
        heartbeatsUntilComparison -= 1
        guard heartbeatsUntilComparison < 0 else { return false }
        heartbeatsUntilComparison = max(0, members.count - 1) / Self.digestsPerHeartbeat
        return true
    }

    // MARK: Configuration differences

    /// Applies the published digests, reads the definitions behind unknown ones, and compares the configurations.
    private func update(_ published: [String: String]) {
        // If a sidecar or its hash is missing, Redis may have lost it, and the sidecar publishes it again. Until then
        // its last digest stays.
        digests = digests.filter { lastSeen[$0.key] != nil }.merging(published) { $1 }
        digests[runtime.id] = nil
        let currentDigests = Set(digests.values)
        definitions = definitions.filter { currentDigests.contains($0.key) }
        var unknownDigests = currentDigests.subtracting(definitions.keys).subtracting([configuration.combined])
        for (id, digest) in digests where unknownDigests.remove(digest) != nil {
            runtime.pipeline.send(GetFields(key: runtime.keys.fleetMember(id))) { [self] result in
                guard let fields = try? result.get() else { return heartbeatsUntilComparison = 0 }
                guard let text = fields[Field.services], let other = ConfigurationDigest(text: text) else { return }
                // The sidecar may have reloaded in the meantime.
                digests[id] = other.combined
                definitions[other.combined] = other
                compare()
            }
        }
        compare()
    }

    /// Compares the configurations of the live sidecars. Logs each service that starts or ceases to differ.
    private func compare() {
        let previouslyDiffering = differences.map(\.service)
        let unknownSidecars = digests.filter { definitions[$0.value] == nil && $0.value != configuration.combined }.keys
        differences = configuration.differences(
            from: digests.compactMapValues { definitions[$0] }, keeping: differences, of: Set(unknownSidecars))
        for difference in differences where !previouslyDiffering.contains(difference.service) {
            let named = difference.sidecars.prefix(Self.maximumNamed).joined(separator: ",")
            let unnamedCount = difference.sidecars.count - Self.maximumNamed
            runtime.logger.log(
                .configurationDiffers,
                [
                    "service": difference.service,
                    "sidecars": unnamedCount > 0 ? "\(named) and \(unnamedCount) more" : named,
                ])
        }
        for service in previouslyDiffering where !differences.contains(where: { $0.service == service }) {
            runtime.logger.log(.configurationAgrees, ["service": service])
        }
    }

    // MARK: Listing

    /// Lists the live sidecars, sorted by ID, in two round trips. O(n) in sidecars. Concurrent calls share one listing.
    func list(then done: @escaping (Result<[FleetMember], RedisError>) -> Void) {
        pendingListings.append(done)
        guard pendingListings.count == 1 else { return }
        sendHeartbeat { [self] failure in
            if let failure { return finishListing(.failure(failure)) }
            let ids = members.sorted()
            guard !ids.isEmpty else { return finishListing(.success([])) }
            var listedMembers: [FleetMember] = []
            var failure: RedisError?
            var unansweredCount = ids.count
            for id in ids {
                runtime.pipeline.send(GetFields(key: runtime.keys.fleetMember(id))) { [self] result in
                    switch result {
                    case .failure(let error): failure = failure ?? error
                    case .success(let fields):
                        var member = FleetMember(id: id, fields: fields)
                        member.differingServices = differences.filter { $0.sidecars.contains(id) }.map(\.service)
                        listedMembers.append(member)
                    }
                    unansweredCount -= 1
                    guard unansweredCount == 0 else { return }
                    finishListing(failure.map { .failure($0) } ?? .success(listedMembers.sorted { $0.id < $1.id }))
                }
            }
        }
    }

    private func finishListing(_ result: Result<[FleetMember], RedisError>) {
        let completions = pendingListings
        pendingListings = []
        for done in completions { done(result) }
    }

    /// Extends the TTL of this sidecar's hash.
    private func extend(then done: @escaping (Result<Bool, RedisError>) -> Void) {
        let key = runtime.keys.fleetMember(runtime.id)
        runtime.pipeline.send(ExpireKey(key: key, milliseconds: Self.lifetimeMilliseconds), completion: done)
    }

    /// Updates the member list when a sidecar joins or leaves, so that quotas and majorities change immediately. A
    /// sidecar that disappears without an event is dropped when its last heartbeat expires.
    func eventReceived(_ event: FleetEvent) {
        switch event.kind {
        case .joined:
            if !members.contains(event.sidecar) { members.append(event.sidecar) }
            lastSeen[event.sidecar] = runtime.time.now()
        case .left:
            members.removeAll { $0 == event.sidecar }
            digests[event.sidecar] = nil
            compare()
            lastSeen[event.sidecar] = nil
        }
        size = lastSeen.count
    }

    private func dropExpired(now: Instant) {
        lastSeen = lastSeen.filter { $0.value.advanced(byMilliseconds: Self.lifetimeMilliseconds) > now }
        size = lastSeen.count
    }

    /// Removes this sidecar from the list before it shuts down.
    func leave(then done: @escaping () -> Void) {
        isLeaving = true
        guard runtime.pipeline.isUp else { return done() }
        runtime.pipeline.send(DeleteKey(key: runtime.keys.fleetMember(runtime.id))) { _ in }
        runtime.pipeline.send(script(lifetimeMilliseconds: 0, includesDigests: false)) { _ in done() }
    }

    private func script(lifetimeMilliseconds: Int64, includesDigests: Bool) -> FleetScript {
        FleetScript(
            keys: runtime.keys, id: runtime.id, database: runtime.database, lifetimeMilliseconds: lifetimeMilliseconds,
            includesDigests: includesDigests)
    }
}

extension FleetMember {
    fileprivate init(id: String, fields: [String: String]) {
        self.init(id: id)
        host = fields[FleetCoordinator.Field.host]
        processID = fields[FleetCoordinator.Field.processID].flatMap { Int64($0) }
        version = fields[FleetCoordinator.Field.version]
        startedMilliseconds = fields[FleetCoordinator.Field.started].flatMap { Int64($0) }.flatMap { seconds in
            let (milliseconds, overflow) = seconds.multipliedReportingOverflow(by: 1000)
            // Any client can write to this field, so values outside the calendar's range are ignored.
            return overflow || !EpochMilliseconds.calendarRange.contains(milliseconds) ? nil : milliseconds
        }
        configurationDigest = fields[FleetCoordinator.Field.configuration]
    }
}
