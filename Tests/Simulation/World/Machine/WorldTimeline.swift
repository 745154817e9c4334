internal import HeapModule
internal import InterlockCore

/// The world's time and all that is going to happen, in one order: by time, and of what happens at one time what was planned
/// first. Nothing happens outside of it.
final class WorldTimeline {
    private struct Occurrence: Comparable {
        var at: Int64
        var order: UInt64
        var action: () -> Void

        static func < (left: Self, right: Self) -> Bool { (left.at, left.order) < (right.at, right.order) }
        static func == (left: Self, right: Self) -> Bool { left.order == right.order }
    }

    /// Where a world's time begins, in nanoseconds: late enough that nothing in it is before the clocks' start.
    static let beginning: Int64 = 1_000_000_000_000

    private var planned = Heap<Occurrence>()
    private var lastOrder: UInt64 = 0
    /// Nanoseconds.
    private(set) var now = WorldTimeline.beginning

    var instant: Instant { Instant(nanoseconds: now) }

    /// Calls `action` at `nanoseconds`, or as the next thing when that is over.
    func plan(at nanoseconds: Int64, _ action: @escaping () -> Void) {
        lastOrder += 1
        planned.insert(Occurrence(at: max(now, nanoseconds), order: lastOrder, action: action))
    }

    /// Calls `action` after so many nanoseconds.
    func plan(in nanoseconds: Int64, _ action: @escaping () -> Void) {
        plan(at: now + nanoseconds, action)
    }

    /// Lets everything happen up to `end`, which it then is; or until `isOver` says so.
    func run(until end: Int64, isOver: () -> Bool = { false }) {
        while let next = planned.min, next.at <= end {
            guard !isOver() else { return }
            planned.removeMin()
            now = next.at
            next.action()
        }
        now = max(now, end)
    }
}

extension Int64 {
    /// So many milliseconds, in nanoseconds.
    static func milliseconds(_ count: Int64) -> Int64 { count * 1_000_000 }
    static func microseconds(_ count: Int64) -> Int64 { count * 1000 }
    static func seconds(_ count: Int64) -> Int64 { count * 1_000_000_000 }
}
