/// The time that clients may use in one tick of an event loop, in total and per client. It does no I/O and takes times
/// as arguments, in nanoseconds.
///
/// Clients run in slices. A slice ends when its client has nothing left to do, when it has used `maximumSlice`, or when
/// all slices of the tick have used `maximumTick`; the remaining work waits for another tick. A single piece of work is
/// never interrupted, so a slice may exceed its limit by one piece.
package struct TickBudget {
    /// The limit leaves room for unmeasured time (the rest of the last piece, the system's part of reads) in a tick of
    /// a millisecond.
    package static let maximumTick: Int64 = 500_000
    package static let maximumSlice: Int64 = 250_000
    /// The charge for each slice, because the system call that read the client's bytes precedes the first reading of
    /// the clock.
    static let readCharge: Int64 = 3_000

    /// The time used by this tick's finished slices.
    package private(set) var spent: Int64 = 0
    private var sliceBegan: Int64?

    package init() {}

    /// Whether a slice may begin.
    package var hasTimeLeft: Bool { spent < Self.maximumTick }

    package mutating func begin(now: Int64) { sliceBegan = now }

    /// Returns whether the slice may continue.
    package func mayContinue(now: Int64) -> Bool {
        guard let sliceBegan else { return false }
        let used = now - sliceBegan
        return used < Self.maximumSlice && spent + used < Self.maximumTick
    }

    /// Ends the slice.
    /// - Returns: whether it used all of the time that one client may use in a row.
    package mutating func end(now: Int64) -> Bool {
        guard let sliceBegan else { return false }
        self.sliceBegan = nil
        let used = max(0, now - sliceBegan)
        spent += used + Self.readCharge
        return used >= Self.maximumSlice
    }

    /// Adds work that a client caused and that ran outside of its slice.
    package mutating func charge(_ nanoseconds: Int64) { spent += nanoseconds }

    package mutating func tickEnded() { spent = 0 }
}
