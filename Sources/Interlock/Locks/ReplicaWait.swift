internal import RedisClient

/// Waits until replicas have the writes of the connection on which locks are granted. Confined to the coordinator's
/// event loop.
///
/// At most one `WAIT` is in progress per connection, because it blocks the commands behind it. It covers every grant
/// that was answered before it was sent; the next one covers the grants that were answered since.
final class ReplicaWait {
    typealias Completion = (Result<Int64, RedisError>) -> Void

    /// The completions that wait for one connection.
    private struct ConnectionQueue {
        /// The completions that the next `WAIT` covers.
        var next: [Completion] = []
    }

    private let replicas: Int
    private let timeout: Int64
    /// The queues of the connections with a `WAIT` in progress.
    private var queues: [ObjectIdentifier: ConnectionQueue] = [:]

    /// - Parameter timeoutMilliseconds: the time within which a `WAIT` and the commands behind it must be answered.
    init(replicas: Int, timeoutMilliseconds: Int64) {
        self.replicas = replicas
        timeout = max(1, timeoutMilliseconds / 2)
    }

    /// Calls `completion` with the number of replicas that have every write answered so far on `server`'s connection.
    func acknowledged(at server: RedisPipeline, _ completion: @escaping Completion) {
        let connection = ObjectIdentifier(server)
        guard queues[connection] == nil else { return queues[connection, default: ConnectionQueue()].next.append(completion) }
        send(for: [completion], to: server)
    }

    private func send(for covered: [Completion], to server: RedisPipeline) {
        let connection = ObjectIdentifier(server)
        queues[connection] = ConnectionQueue()
        // A completion may wait for the `WAIT` in progress and then for the next one, so each gets half of the timeout.
        server.send(WaitForReplicas(replicas: replicas, timeoutMilliseconds: timeout)) { [self] result in
            for completion in covered { completion(result) }
            let next = queues.removeValue(forKey: connection)?.next ?? []
            if !next.isEmpty { send(for: next, to: server) }
        }
    }
}
