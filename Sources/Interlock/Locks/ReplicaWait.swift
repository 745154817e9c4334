internal import Hiredis

/// Waits until replicas have what was written on the connection that locks are granted on. Confined to the coordinator's event
/// loop.
///
/// One `WAIT` at a time is under way, and covers every grant that was answered before it was sent: it holds up what comes behind
/// it on the connection, and the next one serves all who came meanwhile.
final class ReplicaWait {
    typealias Completion = (Result<Int64, RedisError>) -> Void

    private let replicas: Int
    private let pipeline: RedisPipeline
    private let patience: Int64
    /// What the next `WAIT` is for.
    private var next: [Completion] = []
    private var isUnderWay = false

    /// - Parameter timeoutMilliseconds: within which an answer must come, to this and to what is sent behind it.
    init(replicas: Int, pipeline: RedisPipeline, timeoutMilliseconds: Int64) {
        self.replicas = replicas
        self.pipeline = pipeline
        patience = max(1, timeoutMilliseconds / 2)
    }

    /// Calls `completion` with how many replicas have all that was answered on the connection until now.
    func acknowledged(_ completion: @escaping Completion) {
        next.append(completion)
        if !isUnderWay { send() }
    }

    private func send() {
        let covered = next
        next = []
        isUnderWay = true
        // What waits for its own turn behind one that is under way has its answer within the timeout all the same.
        pipeline.send(WaitForReplicas(replicas: replicas, timeoutMilliseconds: patience)) { [self] result in
            isUnderWay = false
            for completion in covered { completion(result) }
            if !next.isEmpty, !isUnderWay { send() }
        }
    }
}
