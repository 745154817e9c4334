internal import HeapModule
internal import InterlockCore

/// A time or a duration in a simulated world, in nanoseconds.
typealias Nanoseconds = Int64

/// The clock and scheduler of a world. Actions run in order of their times, and at equal times in the order of
/// scheduling. Nothing happens outside actions.
final class WorldTimeline {
    private struct ScheduledAction: Comparable {
        var at: Nanoseconds
        var order: UInt64
        var action: () -> Void

        static func < (left: Self, right: Self) -> Bool { (left.at, left.order) < (right.at, right.order) }
        static func == (left: Self, right: Self) -> Bool { left.order == right.order }
    }

    /// A world's first instant. It is late enough that no clock in the world shows a negative time.
    static let beginning: Nanoseconds = 1_000_000_000_000

    private var scheduled = Heap<ScheduledAction>()
    private var lastOrder: UInt64 = 0
    /// The current time.
    private(set) var now: Nanoseconds = WorldTimeline.beginning

    var instant: Instant { Instant(nanoseconds: now) }

    /// Runs `action` at `nanoseconds`, or as soon as possible if that time has passed.
    func schedule(at nanoseconds: Nanoseconds, _ action: @escaping () -> Void) {
        lastOrder += 1
        scheduled.insert(ScheduledAction(at: max(now, nanoseconds), order: lastOrder, action: action))
    }

    /// Runs `action` after this many nanoseconds.
    func schedule(in nanoseconds: Nanoseconds, _ action: @escaping () -> Void) {
        schedule(at: now + nanoseconds, action)
    }

    /// Runs everything up to `end`, or until `shouldStop` returns `true`.
    func run(until end: Nanoseconds, shouldStop: () -> Bool = { false }) {
        while let next = scheduled.min, next.at <= end {
            guard !shouldStop() else { return }
            scheduled.removeMin()
            now = next.at
            next.action()
        }
        now = max(now, end)
    }
}

extension Nanoseconds {
    static func milliseconds(_ count: Int64) -> Nanoseconds { count * 1_000_000 }
    static func microseconds(_ count: Int64) -> Nanoseconds { count * 1000 }
    static func seconds(_ count: Int64) -> Nanoseconds { count * 1_000_000_000 }
}
