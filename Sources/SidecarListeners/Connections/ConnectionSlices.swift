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
    /// The name of the API key of the connection's client; empty if the client has not authenticated.
    var clientName = ""
    /// Whether the connection used up its last slice.
    var isHeavy = false
    /// The pending work, oldest first.
    private var pending: Deque<() -> Void> = []
    /// Whether the connection waits in the scheduler, or runs its pending work.
    private var isQueued = false
    var hasPendingWork: Bool { !pending.isEmpty }
    /// Called at the end of each slice, for work that is worth batching: flushing to the socket.
    var beforeEnd: (() -> Void)?

    package init(_ scheduler: SliceScheduler) {
        self.scheduler = scheduler
    }

    var eventLoop: any EventLoop { scheduler.eventLoop }

    /// Begins a slice, if there is time. `end` must follow.
    /// - Returns: `false` if there is no time now. The caller must then pass the work to `later`.
    func begin() -> Bool { pending.isEmpty && scheduler.begin(self) }

    /// Whether the current slice may continue.
    package var mayContinue: Bool { scheduler.mayContinue(self) }

    /// Returns whether the current slice may begin another piece of work, and begins it. The check before the first
    /// piece does not read the clock.
    func beginWork() -> Bool { scheduler.beginWork(self) }

    func end() { scheduler.end(self) }

    /// Whether the current slice is this connection's.
    var isRunning: Bool { scheduler.current === self }

    /// Charges the tick's budget for work that no slice measures.
    func charge(_ time: TimeAmount) { scheduler.charge(time.nanoseconds) }

    /// The number of buffered bytes below which reading continues.
    static let readAhead = 2048

    /// Returns whether the socket may be read now, and counts the read. If not, the caller must use `readLater`: a
    /// thousand reads would use up a tick.
    func beginRead() -> Bool { scheduler.beginRead() }

    /// Reads from the socket in a later slice.
    func readLater(_ read: @escaping () -> Void) { later(charging: Self.costOfRead, read) }

    /// Returns whether the socket may be written now. If so, and outside this connection's slice, charges the tick for
    /// the write: within the slice, the clock already measures it. If not, the caller must use `writeLater`.
    func beginWrite() -> Bool {
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

    /// Schedules work for a later slice, after all pending work. The work may check `mayContinue`, and call `later`
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

    /// Runs pending work in the current slice, until the slice must end.
    func runPending() {
        // Work that is added meanwhile waits, and the connection queues again, by its load at that time.
        var remainingCount = pending.count
        while remainingCount > 0, let work = pending.popFirst() {
            remainingCount -= 1
            work()
            guard mayContinue else { break }
        }
        scheduler.end(self)
        isQueued = false
        if !pending.isEmpty { enqueue() }
    }
}
