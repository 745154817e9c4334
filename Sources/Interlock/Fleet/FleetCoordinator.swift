internal import InterlockCore
internal import Logging
internal import RedisClient

/// This sidecar's place in the fleet: a sign of life every few seconds. Confined to the coordinator's event loop.
final class FleetCoordinator {
    static let heartbeatMilliseconds: Int64 = 5000
    static let lifetimeMilliseconds: Int64 = 15000

    private let runtime: CoordinatorRuntime
    let version: String
    private let startedAt: Int64
    /// What this sidecar runs with.
    private var configuration: ConfigurationDigest
    /// The live sidecars' IDs when Redis was last heard of, this one's among them.
    private(set) var members: [String] = []
    /// When each sidecar was last on the list: one that is being refilled, after Redis lost it, names only some of them.
    private var lastSeen: [String: Instant] = [:]
    /// The number of sidecars among which limits are divided: all that were on the list within a lifetime and have not
    /// signed off. While Redis is down, all that were on the list when Redis last answered.
    private var size = 0 {
        didSet { runtime.fleetSizeChanged(to: size) }
    }
    /// The services that other live sidecars define differently.
    private(set) var differences: [ConfigurationDifference] = []
    /// The digest of what each other live sidecar runs with, by ID. Older ones publish none.
    private var digests: [String: String] = [:]
    /// What is behind such a digest: it is read once, however many sidecars have it.
    private var read: [String: ConfigurationDigest] = [:]
    /// So many sidecars' digests are read with each sign of life at most, on average.
    private static let comparedAtEachSign = 16
    private var signsUntilComparison = 0
    /// The most sidecars that one line of the log names.
    private static let mostNamed = 10
    /// Who asked for the list that is being made.
    private var listeners: [(Result<[FleetMember], RedisError>) -> Void] = []
    /// Redis has what this sidecar runs with now.
    private var isIntroduced = false
    /// It is off the list, and does not come back.
    private var isLeaving = false
    /// What Redis says of itself: version and eviction policy.
    private(set) var server: [String: String] = [:]
    /// The server's own version, not that of the Redis it is compatible with; `nil` if unknown.
    var redisVersion: String? { server["valkey_version"].map { "Valkey \($0)" } ?? server["redis_version"] }
    /// Why this sidecar cannot work with what it talks to; `nil`: it can.
    var refusal: String? {
        server["cluster_enabled"] == "1" && !runtime.keys.isOnCluster ? CoordinatorLogEvent.redisIsCluster.line.message : nil
    }

    init(runtime: CoordinatorRuntime, version: String, configuration: ConfigurationDigest) {
        self.runtime = runtime
        self.version = version
        self.configuration = configuration
        startedAt = runtime.wallClock.milliseconds() / 1000
    }

    /// Redis is back, or a server of it: tells who this is, and asks what it talks to.
    func redisIsBack(at server: RedisConfiguration.Address) {
        // While Redis was away nobody could be seen: all whom it had seen may be there, and say so one after the other.
        let now = runtime.time.now()
        for member in lastSeen.keys { lastSeen[member] = now }
        introduce()
        guard let connection = runtime.pipeline.connections.first(where: { $0.address == server }) else { return }
        connection.send(Info(section: "everything")) { [self] result in
            guard case .success(let fields) = result else { return }
            self.server = fields
            if refusal != nil { runtime.logger.log(.redisIsCluster, ["redis": runtime.redisName]) }
            guard let policy = fields["maxmemory_policy"], policy != "noeviction" else { return }
            runtime.logger.log(.redisEvicts, ["policy": policy])
        }
    }

    /// Services or domains were reloaded: says with what this sidecar runs now.
    func reconfigured(_ new: ConfigurationDigest) {
        guard new != configuration else { return }
        configuration = new
        compare()
        if runtime.pipeline.isUp { introduce() }
    }

    /// The fields of a member's hash.
    fileprivate enum Field {
        static let host = "host"
        static let processID = "pid"
        static let version = "version"
        /// In seconds of the Unix epoch, by the sidecar's own clock.
        static let started = "started"
        static let configuration = "configuration"
        /// See `ConfigurationDigest.text`.
        static let services = "services"
    }

    private func introduce() {
        guard !isLeaving else { return }
        isIntroduced = false
        signsUntilComparison = 0
        let fields: [(name: String, value: String)] = [
            (Field.host, runtime.host), (Field.processID, "\(runtime.processID)"), (Field.version, version),
            (Field.started, "\(startedAt)"), (Field.configuration, configuration.whole),
            (Field.services, configuration.text),
        ]
        let key = runtime.keys.fleetMember(runtime.id)
        runtime.pipeline.send(SetFields(key: key, fields: fields)) { [self] result in
            // What is refused now is tried with a later sign of life.
            guard case .success = result else { return }
            isIntroduced = true
            extend { _ in }
        }
        signOfLife()
    }

    /// A sign of life. The member's own hash is extended along with it.
    func beat() {
        guard runtime.pipeline.isUp else { return }
        guard isIntroduced else { return introduce() }
        signOfLife()
        extend { [self] result in
            // Wiped meanwhile: says again who this is.
            if case .success(false) = result { introduce() }
        }
    }

    private func signOfLife(then done: @escaping (RedisError?) -> Void = { _ in }) {
        guard !isLeaving else { return done(nil) }
        let compares = isComparisonDue()
        runtime.pipeline.send(script(lifetime: Self.lifetimeMilliseconds, asksForDigests: compares)) { [self] result in
            switch result {
            case .failure(let error):
                // The next one compares in its place.
                if compares { signsUntilComparison = 0 }
                done(error)
            case .success(let reply):
                members = reply.members
                let now = runtime.time.now()
                for member in members { lastSeen[member] = now }
                forgetTheGone(now: now)
                if let digests = reply.digests { look(at: digests) }
                done(nil)
            }
        }
    }

    /// Redis reads a hash for each of the others: a large fleet asks with a part of its signs of life only.
    private func isComparisonDue() -> Bool {
        signsUntilComparison -= 1
        guard signsUntilComparison < 0 else { return false }
        signsUntilComparison = max(0, members.count - 1) / Self.comparedAtEachSign
        return true
    }

    // MARK: What the others run with

    /// Reads what is behind digests that are not known yet, and compares.
    private func look(at published: [String: String]) {
        // One that is missing on the list, or has nothing there, may be about to say again who it is, after Redis lost it.
        digests = digests.filter { lastSeen[$0.key] != nil }.merging(published) { $1 }
        digests[runtime.id] = nil
        let wanted = Set(digests.values)
        read = read.filter { wanted.contains($0.key) }
        var unread = wanted.subtracting(read.keys).subtracting([configuration.whole])
        for (id, digest) in digests where unread.remove(digest) != nil {
            runtime.pipeline.send(GetFields(key: runtime.keys.fleetMember(id))) { [self] result in
                guard let fields = try? result.get() else { return signsUntilComparison = 0 }
                guard let text = fields[Field.services], let other = ConfigurationDigest(text: text) else { return }
                // It may have reloaded meanwhile.
                digests[id] = other.whole
                read[other.whole] = other
                compare()
            }
        }
        compare()
    }

    /// Tells of each service that others define differently, and of each that nobody does any more, once.
    private func compare() {
        let before = differences.map(\.service)
        let unread = digests.filter { read[$0.value] == nil && $0.value != configuration.whole }.keys
        differences = configuration.differences(
            from: digests.compactMapValues { read[$0] }, keeping: differences, of: Set(unread))
        for difference in differences where !before.contains(difference.service) {
            let named = difference.sidecars.prefix(Self.mostNamed).joined(separator: ",")
            let others = difference.sidecars.count - Self.mostNamed
            runtime.logger.log(
                .configurationDiffers,
                ["service": difference.service, "sidecars": others > 0 ? "\(named) and \(others) more" : named])
        }
        for service in before where !differences.contains(where: { $0.service == service }) {
            runtime.logger.log(.configurationAgrees, ["service": service])
        }
    }

    // MARK: The list

    /// The live sidecars, by ID: two round trips. O(n) in sidecars.
    ///
    /// Whoever asks while others do is told the same: what one list costs does not grow with those who ask.
    func list(then done: @escaping (Result<[FleetMember], RedisError>) -> Void) {
        listeners.append(done)
        guard listeners.count == 1 else { return }
        signOfLife { [self] failure in
            if let failure { return listed(.failure(failure)) }
            let ids = members.sorted()
            guard !ids.isEmpty else { return listed(.success([])) }
            var list: [FleetMember] = []
            var failure: RedisError?
            var unanswered = ids.count
            for id in ids {
                runtime.pipeline.send(GetFields(key: runtime.keys.fleetMember(id))) { [self] result in
                    switch result {
                    case .failure(let error): failure = failure ?? error
                    case .success(let fields):
                        var member = FleetMember(id: id, fields: fields)
                        member.differing = differences.filter { $0.sidecars.contains(id) }.map(\.service)
                        list.append(member)
                    }
                    unanswered -= 1
                    guard unanswered == 0 else { return }
                    listed(failure.map { .failure($0) } ?? .success(list.sorted { $0.id < $1.id }))
                }
            }
        }
    }

    private func listed(_ result: Result<[FleetMember], RedisError>) {
        let told = listeners
        listeners = []
        for done in told { done(result) }
    }

    private func extend(then done: @escaping (Result<Bool, RedisError>) -> Void) {
        let key = runtime.keys.fleetMember(runtime.id)
        runtime.pipeline.send(ExpireKey(key: key, milliseconds: Self.lifetimeMilliseconds), completion: done)
    }

    /// Another sidecar came or went: known at once, so that shares and quorums are of the fleet as it is. Whoever leaves
    /// without a word is off the list with the next sign of life.
    func heard(_ event: FleetEvent) {
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

    private func forgetTheGone(now: Instant) {
        lastSeen = lastSeen.filter { $0.value.advanced(byMilliseconds: Self.lifetimeMilliseconds) > now }
        size = lastSeen.count
    }

    /// Off the list, before the sidecar goes.
    func leave(then done: @escaping () -> Void) {
        isLeaving = true
        guard runtime.pipeline.isUp else { return done() }
        runtime.pipeline.send(DeleteKey(key: runtime.keys.fleetMember(runtime.id))) { _ in }
        runtime.pipeline.send(script(lifetime: 0, asksForDigests: false)) { _ in done() }
    }

    private func script(lifetime: Int64, asksForDigests: Bool) -> FleetScript {
        FleetScript(
            keys: runtime.keys, id: runtime.id, database: runtime.database, lifetime: lifetime, asksForDigests: asksForDigests)
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
            // Anybody can write there: a moment that no calendar has is none.
            return overflow || !EpochMilliseconds.calendar.contains(milliseconds) ? nil : milliseconds
        }
        configuration = fields[FleetCoordinator.Field.configuration]
    }
}
