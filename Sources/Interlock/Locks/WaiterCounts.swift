internal import InterlockCore
internal import RedisClient

/// Publishes the number of local waiters for the locks that another sidecar inspects: immediately after a request, and
/// then whenever the number changes, for ten seconds after the last request. Confined to the coordinator's event loop.
///
/// The load is bounded: apart from a short burst, it sends one command per interval of half a second, however many
/// locks are inspected and however often the numbers change.
final class WaiterCounts {
    private struct Watched {
        let queue: LocalQueue
        var until: Instant
        /// The number that was last published; `nil` if the number must be published even if it is unchanged.
        var published: Int?
        /// The sequence number of the last publication. The lock with the lowest is published first.
        var sequence: UInt64
    }

    /// The time, in milliseconds, for which a sidecar keeps publishing after a request.
    static let lifetimeMilliseconds: Int64 = 10_000
    /// The minimum time between commands, in milliseconds.
    private static let intervalMilliseconds: Int64 = 500
    /// The number of commands that may be sent in a burst after a quiet period.
    private static let maximumBurst: Int64 = 10
    /// The maximum number of locks whose counts are published, and the maximum per command.
    private static let maximumWatched = 1000
    private static let maximumPerCommand = 100

    private let runtime: CoordinatorRuntime
    private let scripts: LockScripts
    /// The watched locks, by the number of their queue.
    private var watched: [UInt64: Watched] = [:]
    private var timer: (entry: Deadlines.Entry, at: Instant)?
    /// The sequence number of the last publication.
    private var sequence: UInt64 = 0
    /// The time at which the commands sent so far would have ended if each had taken `intervalMilliseconds`.
    private var sentUntil = Instant(nanoseconds: 0)

    init(runtime: CoordinatorRuntime, scripts: LockScripts) {
        self.runtime = runtime
        self.scripts = scripts
    }

    /// Starts to publish the count of this queue, because another sidecar inspects its lock.
    func startPublishing(for queue: LocalQueue) {
        guard watched[queue.number] != nil || watched.count < Self.maximumWatched else { return }
        let now = runtime.time.now()
        let until = now.advanced(byMilliseconds: Self.lifetimeMilliseconds)
        let sequence = watched[queue.number]?.sequence ?? 0
        watched[queue.number] = Watched(queue: queue, until: until, published: nil, sequence: sequence)
        // Requests that arrive together are answered with one command.
        if timer.map({ $0.at > now }) ?? true { schedule(at: now) }
    }

    private func schedule(at instant: Instant) {
        timer?.entry.cancel()
        let at = max(instant, sentUntil.advanced(byMilliseconds: -Self.maximumBurst * Self.intervalMilliseconds))
        let entry = runtime.deadlines.schedule(at: at) { [unowned self] in
            timer = nil
            publish()
        }
        timer = (entry, at)
    }

    /// Publishes the counts that have changed, and repeats after the interval while any lock is watched.
    private func publish() {
        let now = runtime.time.now()
        watched = watched.filter { $0.value.until > now && $0.value.queue.machine.count > 0 }
        guard !watched.isEmpty else { return }
        let due = watched.values.filter { $0.published != $0.queue.machine.count }
            .sorted { ($0.sequence, $0.queue.number) < ($1.sequence, $1.queue.number) }
        let batch = due.prefix(runtime.keys.isOnCluster ? 1 : Self.maximumPerCommand)
        if !batch.isEmpty {
            sentUntil = max(sentUntil, now).advanced(byMilliseconds: Self.intervalMilliseconds)
            sequence += 1
            for published in batch {
                watched[published.queue.number]?.published = published.queue.machine.count
                watched[published.queue.number]?.sequence = sequence
            }
            runtime.pipeline.send(CountsScript(counts: batch.map { count($0, now: now) })) { [self] result in
                // Publish the numbers again after a failure.
                guard case .failure = result else { return }
                for unpublished in batch { watched[unpublished.queue.number]?.published = nil }
            }
        }
        schedule(at: batch.count < due.count ? now : now.advanced(byMilliseconds: Self.intervalMilliseconds))
    }

    private func count(_ watched: Watched, now: Instant) -> CountsScript.Count {
        CountsScript.Count(
            keys: LockKeys(scripts: scripts, space: runtime.keys, name: watched.queue.name), ticket: watched.queue.ticket,
            remainingMilliseconds: watched.until.millisecondsRoundedUp(since: now),
            waiterCount: watched.queue.machine.count)
    }
}
