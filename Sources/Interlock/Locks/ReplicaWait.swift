internal import RedisClient

/// Waits until replicas have what was written on the connection that locks are granted on. Confined to the coordinator's event
/// loop.
///
/// One `WAIT` at a time is under way, and covers every grant that was answered before it was sent: it holds up what comes behind
/// it on the connection, and the next one serves all who came meanwhile.
final class ReplicaWait {
    typealias Completion = (Result<Int64, RedisError>) -> Void

    /// What waits on one connection.
    private struct Line {
        /// What the next `WAIT` is for.
        var next: [Completion] = []
    }

    private let replicas: Int
    private let patience: Int64
    /// Of each connection that a `WAIT` is under way on.
    private var lines: [ObjectIdentifier: Line] = [:]

    /// - Parameter timeoutMilliseconds: within which an answer must come, to this and to what is sent behind it.
    init(replicas: Int, timeoutMilliseconds: Int64) {
        self.replicas = replicas
        patience = max(1, timeoutMilliseconds / 2)
    }

    /// Calls `completion` with how many replicas have all that was answered on `server`'s connection until now.
    func acknowledged(at server: RedisPipeline, _ completion: @escaping Completion) {
        let line = ObjectIdentifier(server)
        guard lines[line] == nil else { return lines[line, default: Line()].next.append(completion) }
        send(for: [completion], to: server)
    }

    private func send(for covered: [Completion], to server: RedisPipeline) {
        let line = ObjectIdentifier(server)
        lines[line] = Line()
        // What waits for its own turn behind one that is under way has its answer within the timeout all the same.
        server.send(WaitForReplicas(replicas: replicas, timeoutMilliseconds: patience)) { [self] result in
            for completion in covered { completion(result) }
            let next = lines.removeValue(forKey: line)?.next ?? []
            if !next.isEmpty { send(for: next, to: server) }
        }
    }
}
