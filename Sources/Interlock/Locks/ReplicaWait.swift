internal import RedisClient

/// Waits until replicas have the writes made on the connection that locks are granted on. Confined to the coordinator's
/// event loop.
///
/// Only one `WAIT` is in progress at once, because it blocks the commands behind it on the connection. It covers every
/// grant that was answered before it was sent; the next one covers all that arrived since.
final class ReplicaWait {
    typealias Completion = (Result<Int64, RedisError>) -> Void

    /// The queue of one connection.
    private struct Line {
        /// The completions that the next `WAIT` covers.
        var next: [Completion] = []
    }

    private let replicas: Int
    private let patience: Int64
    /// The queues of the connections with a `WAIT` in progress.
    private var lines: [ObjectIdentifier: Line] = [:]

    /// - Parameter timeoutMilliseconds: the time within which this, and the commands behind it, must be answered.
    init(replicas: Int, timeoutMilliseconds: Int64) {
        self.replicas = replicas
        patience = max(1, timeoutMilliseconds / 2)
    }

    /// Calls `completion` with the number of replicas that have every write answered so far on `server`'s connection.
    func acknowledged(at server: RedisPipeline, _ completion: @escaping Completion) {
        let line = ObjectIdentifier(server)
        guard lines[line] == nil else { return lines[line, default: Line()].next.append(completion) }
        send(for: [completion], to: server)
    }

    private func send(for covered: [Completion], to server: RedisPipeline) {
        let line = ObjectIdentifier(server)
        lines[line] = Line()
        // Half of the timeout, so that a completion that waits behind one `WAIT` for the next is still called in time.
        server.send(WaitForReplicas(replicas: replicas, timeoutMilliseconds: patience)) { [self] result in
            for completion in covered { completion(result) }
            let next = lines.removeValue(forKey: line)?.next ?? []
            if !next.isEmpty { send(for: next, to: server) }
        }
    }
}
