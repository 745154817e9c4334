internal import DequeModule
internal import NIOCore

/// The scheduling of one connection in `SliceScheduler`. Confined to the event loop.
package final class ConnectionSlices {
    /// The cost of a read in the kernel, which happens after the slice that requests it.
    private static let costOfRead = TimeAmount.microseconds(8)
    /// The cost of reading and dropping up to 64 KiB.
    static let costOfDrop = TimeAmount.microseconds(20)
    /// The cost of a write to the socket.
    private static let costOfWrite = TimeAmount.microseconds(4)

    private let scheduler: SliceScheduler
    /// The name of the connection's API key; empty if its client has not authenticated.
    var clientKey = ""
    /// Whether the connection used up its last slice.
    var isHeavy = false
    /// The pending work, in order. A connection has at most one piece for itself and one for each of its streams.
    private var pending: Deque<() -> Void> = []
    private var isQueued = false
    var hasPendingWork: Bool { !pending.isEmpty }
    /// Called at the end of each slice, for work that is worth batching: flushing to the socket.
    var beforeEnd: (() -> Void)?

    package init(_ scheduler: SliceScheduler) {
        self.scheduler = scheduler
    }

    var eventLoop: any EventLoop { scheduler.eventLoop }

    /// Begins a slice; `end` must follow.
    /// - Returns: `false` if there is no time now; then the work must go to `later`.
    func begin() -> Bool { pending.isEmpty && scheduler.begin(self) }

    /// Whether the current slice may continue.
    package var mayContinue: Bool { scheduler.mayContinue(self) }

    /// Whether the slice may begin more work. The first piece does not read the clock.
    var mayBeginWork: Bool { scheduler.mayBeginWork(self) }

    func end() { scheduler.end(self) }

    /// Whether the current slice is this connection's.
    var isRunning: Bool { scheduler.current === self }

    /// Charges the connection's budget for work that runs outside its slice.
    func charge(_ time: TimeAmount) { scheduler.charge(time.nanoseconds) }

    /// The number of buffered bytes below which reading continues.
    static let readAhead = 2048

    /// Whether the socket may be read now. If not, `readLater` must follow: a thousand reads would use up a tick.
    func mayRead() -> Bool { scheduler.mayRead() }

    /// Reads from the socket in a later slice.
    func readLater(_ read: @escaping () -> Void) { later(charging: Self.costOfRead, read) }

    /// Whether the socket may be written now, which is charged. If not, `writeLater` must follow.
    func mayWrite() -> Bool {
        guard mayUseSocket else { return false }
        if !isRunning { charge(Self.costOfWrite) }
        return true
    }

    /// Writes to the socket in a later slice.
    func writeLater(_ write: @escaping () -> Void) { later(charging: Self.costOfWrite, write) }

    private var mayUseSocket: Bool { isRunning || pending.isEmpty && scheduler.mayRunNow(self) }

    private func later(charging time: TimeAmount, _ work: @escaping () -> Void) {
        later { [self] in
            charge(time)
            work()
        }
    }

    /// Schedules work for a later slice, behind all pending work. The work may check `mayContinue` and call `later`
    /// again.
    package func later(_ work: @escaping () -> Void) {
        pending.append(work)
        enqueue()
    }

    /// Drops all pending work because the connection has closed.
    func cancel() { pending.removeAll() }

    private func enqueue() {
        guard !isQueued else { return }
        isQueued = true
        scheduler.wait(self)
    }

    func runPending() {
        // The connection queues again afterwards, according to its load at that time.
        var remaining = pending.count
        while remaining > 0, let work = pending.popFirst() {
            remaining -= 1
            work()
            guard mayContinue else { break }
        }
        scheduler.end(self)
        isQueued = false
        if !pending.isEmpty { enqueue() }
    }
}
