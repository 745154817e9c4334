internal import InterlockCore

/// A sidecar's connection whose reads Redis remembers: `KeyWatch` of Interlock.
final class SimulatedKeyWatch {
    let link: SimulatedRedisLink
    private let server: SimulatedRedis
    /// The subscriber's connection, which is told.
    private var listener: SimulatedConnection?
    /// Whom Redis tells of what is read over a connection, as Redis has it.
    private var tracking: (reads: SimulatedConnection, listener: SimulatedConnection)?

    /// From now on changes are told, and were not before: whoever relies on it reads again.
    var onTracking: (() -> Void)?

    init(world: SimulatedWorld, server: SimulatedRedis, path: NetworkPath, node: SimulatedWorld.NodeID) {
        self.server = server
        link = SimulatedRedisLink(world: world, server: server, path: path, node: node)
        link.onUp = { [unowned self] _ in track() }
    }

    var isUp: Bool { link.isUp }

    func start() {
        link.start()
    }

    /// The subscriptions stand, on this connection; `nil`: they do not.
    func tell(_ listener: SimulatedConnection?) {
        self.listener = listener
        track()
    }

    /// How long a key still lasts in milliseconds, as `PTTL` has it. It is watched from then on.
    func remaining(of key: String, completion: @escaping (Result<Int64, LostAnswer>) -> Void) {
        link.sendOnConnection(reading(key) { $0.pttl(key) }, completion: completion)
    }

    /// What a key holds. It is watched from then on.
    func value(of key: String, completion: @escaping (Result<String?, LostAnswer>) -> Void) {
        link.sendOnConnection(reading(key) { $0.get(key) }, completion: completion)
    }

    /// Runs a script that reads `key` last: it is watched from then on.
    func run<Reply>(
        _ script: ModelScript, reading key: String, _ command: @escaping (inout ModelRedis) -> Reply,
        completion: @escaping (Result<Reply, LostAnswer>) -> Void
    ) {
        link.runOnConnection(script, reading(key, command), completion: completion)
    }

    /// A command as Redis runs it that reads `key`.
    private func reading<Reply>(
        _ key: String, _ command: @escaping (inout ModelRedis) -> Reply
    ) -> (SimulatedConnection) -> Reply {
        { [unowned self] connection in
            let listener = tracking?.reads === connection ? tracking?.listener : nil
            let reply = server.execute(sparing: listener) { model in
                // Lapsed keys are dropped by whoever finds them.
                model.dropIfLapsed(key)
                return command(&model)
            }
            server.watch(key, for: listener)
            return reply
        }
    }

    private func track() {
        guard let listener, link.isUp else { return }
        link.sendOnConnection(
            { [unowned self] connection in
                guard listener.isOpenAtServer else { return false }
                tracking = (connection, listener)
                return true
            },
            completion: { [unowned self] in
                if case .success(true) = $0 { onTracking?() }
            })
    }
}
