internal import HeapModule
internal import InterlockCore

/// The clock and scheduler of a world. Actions run by time, and at equal times in the order of scheduling. Nothing
/// happens outside them.
final class WorldTimeline {
    private struct ScheduledAction: Comparable {
        var at: Int64
        var order: UInt64
        var action: () -> Void

        static func < (left: Self, right: Self) -> Bool { (left.at, left.order) < (right.at, right.order) }
        static func == (left: Self, right: Self) -> Bool { left.order == right.order }
    }

    /// A world's first instant, in nanoseconds. It is late enough that no time in the world is below a clock's zero.
    static let beginning: Int64 = 1_000_000_000_000

    private var scheduled = Heap<ScheduledAction>()
    private var lastOrder: UInt64 = 0
    /// The current time, in nanoseconds.
    private(set) var now = WorldTimeline.beginning

    var instant: Instant { Instant(nanoseconds: now) }

    /// Runs `action` at `nanoseconds`, or as soon as possible if that time has passed.
    func schedule(at nanoseconds: Int64, _ action: @escaping () -> Void) {
        lastOrder += 1
        scheduled.insert(ScheduledAction(at: max(now, nanoseconds), order: lastOrder, action: action))
    }

    /// Runs `action` after this many nanoseconds.
    func schedule(in nanoseconds: Int64, _ action: @escaping () -> Void) {
        schedule(at: now + nanoseconds, action)
    }

    /// Runs everything up to `end`, or until `shouldStop` returns `true`.
    func run(until end: Int64, shouldStop: () -> Bool = { false }) {
        while let next = scheduled.min, next.at <= end {
            guard !shouldStop() else { return }
            scheduled.removeMin()
            now = next.at
            next.action()
        }
        now = max(now, end)
    }
}

extension Int64 {
    /// Converts milliseconds to nanoseconds.
    static func milliseconds(_ count: Int64) -> Int64 { count * 1_000_000 }
    static func microseconds(_ count: Int64) -> Int64 { count * 1000 }
    static func seconds(_ count: Int64) -> Int64 { count * 1_000_000_000 }
}
