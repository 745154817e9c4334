internal import DequeModule
internal import NIOCore

/// One connection's part in `ClientTurns`. Confined to the event loop.
package final class ClientTurn {
    /// The system's part of a read, which comes after the slice that asks for it.
    private static let costOfRead = TimeAmount.microseconds(8)
    /// A read of up to 64 KiB that is dropped.
    static let costOfDrop = TimeAmount.microseconds(20)
    private static let costOfWrite = TimeAmount.microseconds(4)

    private let turns: ClientTurns
    /// The name of the API key that the connection has shown; empty: none.
    var party = ""
    /// The last slice was used up.
    var isHeavy = false
    /// The work that waits, in order. The connection holds a bounded number: one piece for itself and one for each of its streams.
    private var left: Deque<() -> Void> = []
    private var isInLine = false
    var hasWorkLeft: Bool { !left.isEmpty }
    /// Called within each slice when it ends, for what costs time only once: to hand what was written to the socket.
    var beforeEnd: (() -> Void)?

    package init(_ turns: ClientTurns) {
        self.turns = turns
    }

    var eventLoop: any EventLoop { turns.eventLoop }

    /// Begins a slice; `end` must follow.
    /// - Returns: `false`: there is no time for it now, and the work goes to `later`.
    func begin() -> Bool { left.isEmpty && turns.begin(self) }

    /// Whether the slice that has begun may go on.
    package var mayGoOn: Bool { turns.mayGoOn(self) }

    /// Whether the slice may begin more work. The first piece does not read the clock.
    var mayBeginWork: Bool { turns.mayBeginWork(self) }

    func end() { turns.end(self) }

    /// Whether the slice that has begun is this connection's.
    var isRunning: Bool { turns.current === self }

    /// Counts work that the connection causes and that runs outside of its slice.
    func charge(_ time: TimeAmount) { turns.charge(time.nanoseconds) }

    /// The bytes that may wait for a slice while more are read.
    static let readAhead = 2048

    /// Whether the socket may be read now; else `readLater` follows: a thousand sockets in one tick would take all of it.
    func mayRead() -> Bool { turns.mayRead() }

    /// Reads from the socket in a later slice.
    func readLater(_ read: @escaping () -> Void) { later(charging: Self.costOfRead, read) }

    /// Whether the socket may be written to now, which is charged; else `writeLater` follows.
    func mayWrite() -> Bool {
        guard mayUseSocket else { return false }
        if !isRunning { charge(Self.costOfWrite) }
        return true
    }

    /// Writes to the socket in a later slice.
    func writeLater(_ write: @escaping () -> Void) { later(charging: Self.costOfWrite, write) }

    private var mayUseSocket: Bool { isRunning || left.isEmpty && turns.mayGoFirst(self) }

    private func later(charging time: TimeAmount, _ work: @escaping () -> Void) {
        later { [self] in
            charge(time)
            work()
        }
    }

    /// Does this in a later slice, behind all that waits already. It may ask `mayGoOn`, and call `later` again.
    package func later(_ work: @escaping () -> Void) {
        left.append(work)
        enterLine()
    }

    /// Drops all that waits: the connection has closed.
    func cancel() { left.removeAll() }

    private func enterLine() {
        guard !isInLine else { return }
        isInLine = true
        turns.wait(self)
    }

    func goOn() {
        // The connection enters the line again at the end, as light or heavy as it is by then.
        var most = left.count
        while most > 0, let work = left.popFirst() {
            most -= 1
            work()
            guard mayGoOn else { break }
        }
        turns.end(self)
        isInLine = false
        if !left.isEmpty { enterLine() }
    }
}
