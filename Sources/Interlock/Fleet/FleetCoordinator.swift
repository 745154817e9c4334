internal import Hiredis
internal import InterlockCore
internal import Logging

/// This sidecar's place in the fleet: a sign of life every few seconds. Confined to the coordinator's event loop.
final class FleetCoordinator {
    static let heartbeatMilliseconds: Int64 = 5000
    static let lifetimeMilliseconds: Int64 = 15000

    private let runtime: CoordinatorRuntime
    let version: String
    private let startedAt: Int64
    /// The live sidecars' IDs when Redis was last heard of, this one's among them.
    private(set) var members: [String] = []
    /// When each sidecar was last on the list: one that is being refilled, after Redis lost it, names only some of them.
    private var lastSeen: [String: Instant] = [:]
    /// Of how many sidecars a share is reckoned: of all that were on the list within a lifetime, and have not left it by their own
    /// word. While Redis is away, of all that were when it was last heard of.
    private(set) var size = 0
    /// What Redis says of itself: version and eviction policy.
    private(set) var server: [String: String] = [:]
    /// Why this sidecar cannot work with what it talks to; `nil`: it can.
    var refusal: String? {
        server["cluster_enabled"] == "1" ? CoordinatorLogEvent.redisIsCluster.line.message : nil
    }

    init(runtime: CoordinatorRuntime, version: String) {
        self.runtime = runtime
        self.version = version
        startedAt = runtime.wallClock.milliseconds() / 1000
    }

    /// Redis is back: tells who this is, and asks what it talks to.
    func redisIsBack() {
        // While Redis was away nobody could be seen: all whom it had seen may be there, and say so one after the other.
        let now = runtime.time.now()
        for member in lastSeen.keys { lastSeen[member] = now }
        introduce()
        runtime.pipeline.send(Info(section: "everything")) { [self] result in
            guard case .success(let fields) = result else { return }
            server = fields
            if refusal != nil { runtime.logger.log(.redisIsCluster, ["redis": runtime.redisName]) }
            guard let policy = fields["maxmemory_policy"], policy != "noeviction" else { return }
            runtime.logger.log(.redisEvicts, ["policy": policy])
        }
    }

    private func introduce() {
        let fields: [(name: String, value: String)] = [
            ("host", runtime.host), ("pid", "\(runtime.processID)"), ("version", version), ("started", "\(startedAt)"),
        ]
        let key = runtime.keys.fleetMember(runtime.id)
        runtime.pipeline.send(SetFields(key: key, fields: fields)) { [self] result in
            // What is refused now is tried with a later sign of life.
            if case .success = result { extend { _ in } }
        }
        signOfLife()
    }

    /// A sign of life. The member's own hash is extended along with it.
    func beat() {
        guard runtime.pipeline.isUp else { return }
        signOfLife()
        extend { [self] result in
            // Wiped meanwhile: says again who this is.
            if case .success(false) = result { introduce() }
        }
    }

    private func signOfLife() {
        runtime.pipeline.run(script(lifetime: Self.lifetimeMilliseconds)) { [self] result in
            guard case .success(let reply) = result else { return }
            members = reply.members
            let now = runtime.time.now()
            for member in members { lastSeen[member] = now }
            forgetTheGone(now: now)
        }
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
        guard runtime.pipeline.isUp else { return done() }
        runtime.pipeline.send(DeleteKey(key: runtime.keys.fleetMember(runtime.id))) { _ in }
        runtime.pipeline.run(script(lifetime: 0)) { _ in done() }
    }

    private func script(lifetime: Int64) -> FleetScript {
        FleetScript(keys: runtime.keys, id: runtime.id, database: runtime.database, lifetime: lifetime)
    }
}
