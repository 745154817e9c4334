internal import HeapModule
internal import InterlockCore
internal import NIOCore

/// Many deadlines on one timer of the event loop. Setting a deadline costs O(log n), and cancelling it O(1) amortized.
/// A cancelled deadline is dropped at its time, or once most deadlines are cancelled.
final class Deadlines {
    /// A deadline that can be cancelled.
    final class Entry {
        fileprivate var action: (() -> Void)?
        fileprivate unowned let deadlines: Deadlines

        fileprivate init(action: @escaping () -> Void, deadlines: Deadlines) {
            self.action = action
            self.deadlines = deadlines
        }

        func cancel() {
            guard action != nil else { return }
            action = nil
            deadlines.entryCancelled()
        }
    }

    private struct Item: Comparable {
        var instant: Instant
        var entry: Entry

        static func < (left: Item, right: Item) -> Bool { left.instant < right.instant }
        static func == (left: Item, right: Item) -> Bool { left.instant == right.instant }
    }

    private let eventLoop: any EventLoop
    private let time: TimeSource
    private var heap = Heap<Item>()
    /// The approximate number of cancelled deadlines in the heap. While `fire` runs, it may include some that have
    /// just left the heap.
    private var cancelledCount = 0
    private var armed: (instant: Instant, timer: Scheduled<Void>)?

    init(eventLoop: any EventLoop, time: TimeSource) {
        self.eventLoop = eventLoop
        self.time = time
    }

    /// Calls `action` at `instant` or soon after.
    @discardableResult
    func schedule(at instant: Instant, _ action: @escaping () -> Void) -> Entry {
        let entry = Entry(action: action, deadlines: self)
        heap.insert(Item(instant: instant, entry: entry))
        arm()
        return entry
    }

    /// Cancels all deadlines.
    func cancelAll() {
        while let item = heap.popMin() { item.entry.action = nil }
        cancelledCount = 0
        armed?.timer.cancel()
        armed = nil
    }

    private func arm() {
        guard let next = heap.min?.instant else { return }
        if let armed {
            guard next < armed.instant else { return }
            armed.timer.cancel()
        }
        let now = time.now()
        let delay = next <= now ? 0 : next.nanoseconds - now.nanoseconds
        let timer = eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(delay)) { [weak self] in
            guard let self else { return }
            armed = nil
            fire()
        }
        armed = (next, timer)
    }

    private func fire() {
        let now = time.now()
        // Removed from the heap before any action runs, so that a deadline that an action sets for the current instant
        // fires in the next tick.
        var due: [Entry] = []
        while let item = heap.min, item.instant <= now {
            heap.removeMin()
            if item.entry.action == nil { cancelledCount -= 1 } else { due.append(item.entry) }
        }
        for entry in due {
            guard let action = entry.action else {
                // Cancelled by an earlier action in this loop, after it had left the heap.
                cancelledCount -= 1
                continue
            }
            entry.action = nil
            action()
        }
        arm()
    }

    private func entryCancelled() {
        cancelledCount += 1
        guard cancelledCount > 1024, cancelledCount > heap.count / 2 else { return }
        heap = Heap(heap.unordered.filter { $0.entry.action != nil })
        cancelledCount = 0
    }
}

/// One deadline. Until it fires, it can only be moved to an earlier time, so the action must check whether it is still
/// needed. If the timer is deallocated, the action does not run.
final class DeadlineTimer {
    private var due: (instant: Instant, entry: Deadlines.Entry)?

    /// Calls `action` at `instant` or soon after, unless the timer is set for an earlier time.
    func set(at instant: Instant, on deadlines: Deadlines, _ action: @escaping () -> Void) {
        if let due {
            guard instant < due.instant else { return }
            due.entry.cancel()
        }
        let entry = deadlines.schedule(at: instant) { [weak self] in
            // The state that `action` uses is deallocated together with the timer.
            guard let self else { return }
            due = nil
            action()
        }
        due = (instant, entry)
    }

    func cancel() {
        due?.entry.cancel()
        due = nil
    }
}
