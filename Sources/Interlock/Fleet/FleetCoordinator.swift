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
    /// What Redis says of itself: version and eviction policy.
    private(set) var server: [String: String] = [:]

    init(runtime: CoordinatorRuntime, version: String) {
        self.runtime = runtime
        self.version = version
        startedAt = runtime.wallClock.milliseconds() / 1000
    }

    /// Redis is back: tells who this is, and asks what it talks to.
    func redisIsBack() {
        let fields: [(name: String, value: String)] = [
            ("host", runtime.host), ("pid", "\(runtime.processID)"), ("version", version), ("started", "\(startedAt)"),
        ]
        let key = runtime.keys.fleetMember(runtime.id)
        runtime.pipeline.send(SetFields(key: key, fields: fields)) { [self] _ in beat() }
        runtime.pipeline.send(Info(section: "everything")) { [self] result in
            guard case .success(let fields) = result else { return }
            server = fields
            guard let policy = fields["maxmemory_policy"], policy != "noeviction" else { return }
            runtime.logger.warning(
                "Redis may evict keys: an evicted lock is a lost lock. Set maxmemory-policy to noeviction",
                metadata: ["maxmemory-policy": "\(policy)"])
        }
    }

    /// A sign of life. The member's own hash is extended along with it.
    func beat() {
        guard runtime.pipeline.isUp else { return }
        runtime.pipeline.run(script(lifetime: Self.lifetimeMilliseconds)) { [self] result in
            guard case .success(let reply) = result else { return }
            members = reply.members
        }
        let key = runtime.keys.fleetMember(runtime.id)
        runtime.pipeline.send(ExpireKey(key: key, milliseconds: Self.lifetimeMilliseconds)) { [self] result in
            // Wiped meanwhile: say again who this is, without the other news.
            if case .success(false) = result { redisIsBack() }
        }
    }

    /// Another sidecar came or went: known at once, so that shares and quorums are of the fleet as it is. Whoever leaves
    /// without a word is off the list with the next sign of life.
    func heard(_ event: FleetEvent) {
        switch event.kind {
        case .joined: if !members.contains(event.sidecar) { members.append(event.sidecar) }
        case .left: members.removeAll { $0 == event.sidecar }
        }
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
