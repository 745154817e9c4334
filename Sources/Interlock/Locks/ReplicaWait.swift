internal import RedisClient

/// Waits until replicas have the writes of the connection on which locks are granted. Confined to the coordinator's
/// event loop.
///
/// At most one `WAIT` is in progress per connection, because it blocks the commands behind it. It covers the grants
/// that Redis answered before the `WAIT` was sent. The next `WAIT` covers the grants that Redis has answered since.
final class ReplicaWait {
    typealias Completion = (Result<Int64, RedisError>) -> Void

    /// The completions that wait for one connection.
    private struct ConnectionQueue {
        /// The completions that the next `WAIT` covers.
        var nextCovered: [Completion] = []
    }

    private let replicaCount: Int
    private let timeoutMilliseconds: Int64
    /// The queues of the connections with a `WAIT` in progress.
    private var queues: [ObjectIdentifier: ConnectionQueue] = [:]

    /// Creates a wait for a number of replicas.
    /// - Parameter timeoutMilliseconds: the time within which Redis must answer a `WAIT` and the commands behind it.
    init(replicas: Int, timeoutMilliseconds: Int64) {
        self.replicaCount = replicas
        self.timeoutMilliseconds = max(1, timeoutMilliseconds / 2)
    }

    /// Calls `completion` with the number of replicas that have all writes that Redis has answered on this connection.
    func countAcknowledgments(at server: RedisPipeline, _ completion: @escaping Completion) {
        let connection = ObjectIdentifier(server)
        guard queues[connection] == nil else {
            return queues[connection, default: ConnectionQueue()].nextCovered.append(completion)
        }
        send(for: [completion], to: server)
    }

    private func send(for covered: [Completion], to server: RedisPipeline) {
        let connection = ObjectIdentifier(server)
        queues[connection] = ConnectionQueue()
        // A completion may wait for the `WAIT` in progress and then for the next one, so each gets half of the timeout.
        server.send(WaitForReplicas(replicaCount: replicaCount, timeoutMilliseconds: timeoutMilliseconds)) {
            [self] result in
            for completion in covered { completion(result) }
            let nextCovered = queues.removeValue(forKey: connection)?.nextCovered ?? []
            if !nextCovered.isEmpty { send(for: nextCovered, to: server) }
        }
    }
}
