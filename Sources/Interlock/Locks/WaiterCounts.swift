internal import InterlockCore
internal import RedisClient

/// Tells other sidecars how many callers wait here for locks that somebody looks at there: at once when it is asked, later whenever the
/// number has changed, and no more when it was not asked for a while. Confined to the coordinator's event loop.
///
/// Bounded: one command each `pause`, but for a few at once, whatever is looked at and however the numbers change.
final class WaiterCounts {
    private struct Watched {
        let queue: LocalQueue
        var until: Instant
        /// `nil`: nothing yet, or not for how long.
        var told: Int?
        /// Whoever was told of longest ago comes first.
        var turn: UInt64
    }

    /// For so many milliseconds a sidecar that was asked goes on telling.
    static let lifetime: Int64 = 10_000
    private static let pause: Int64 = 500
    /// So many commands may follow each other without a pause, when nothing was told before.
    private static let mostAtOnce: Int64 = 10
    /// Of the locks whose counts are told, and of those that one command tells of.
    private static let mostWatched = 1000
    private static let mostInOne = 100

    private let runtime: CoordinatorRuntime
    private let scripts: LockScripts
    /// By the number of the queue.
    private var watched: [UInt64: Watched] = [:]
    private var timer: (entry: Deadlines.Entry, at: Instant)?
    private var turn: UInt64 = 0
    /// When the commands that were sent would all have been sent, with a pause between them.
    private var sentUntil = Instant(nanoseconds: 0)

    init(runtime: CoordinatorRuntime, scripts: LockScripts) {
        self.runtime = runtime
        self.scripts = scripts
    }

    /// Somebody elsewhere looks at this queue's lock.
    func asked(for queue: LocalQueue) {
        guard watched[queue.number] != nil || watched.count < Self.mostWatched else { return }
        let now = runtime.time.now()
        let until = now.advanced(byMilliseconds: Self.lifetime)
        watched[queue.number] = Watched(queue: queue, until: until, told: nil, turn: watched[queue.number]?.turn ?? 0)
        // Others that were asked for in the same breath are told of with it.
        if timer.map({ $0.at > now }) ?? true { plan(at: now) }
    }

    private func plan(at instant: Instant) {
        timer?.entry.cancel()
        let at = max(instant, sentUntil.advanced(byMilliseconds: -Self.mostAtOnce * Self.pause))
        let entry = runtime.deadlines.schedule(at: at) { [unowned self] in
            timer = nil
            tell()
        }
        timer = (entry, at)
    }

    /// Tells what has changed since it was told, and looks again after the pause for as long as anything is looked at.
    private func tell() {
        let now = runtime.time.now()
        watched = watched.filter { $0.value.until > now && $0.value.queue.decisions.count > 0 }
        guard !watched.isEmpty else { return }
        let due = watched.values.filter { $0.told != $0.queue.decisions.count }
            .sorted { ($0.turn, $0.queue.number) < ($1.turn, $1.queue.number) }
        let batch = due.prefix(runtime.keys.isOnCluster ? 1 : Self.mostInOne)
        if !batch.isEmpty {
            sentUntil = max(sentUntil, now).advanced(byMilliseconds: Self.pause)
            turn += 1
            for told in batch {
                watched[told.queue.number]?.told = told.queue.decisions.count
                watched[told.queue.number]?.turn = turn
            }
            runtime.pipeline.send(CountsScript(counts: batch.map { count($0, now: now) })) { [self] result in
                // What was not written down is told again.
                guard case .failure = result else { return }
                for untold in batch { watched[untold.queue.number]?.told = nil }
            }
        }
        plan(at: batch.count < due.count ? now : now.advanced(byMilliseconds: Self.pause))
    }

    private func count(_ watched: Watched, now: Instant) -> CountsScript.Count {
        CountsScript.Count(
            keys: LockKeys(scripts: scripts, space: runtime.keys, name: watched.queue.name), ticket: watched.queue.ticket,
            lasts: watched.until.millisecondsRoundedUp(since: now), waiters: watched.queue.decisions.count)
    }
}
