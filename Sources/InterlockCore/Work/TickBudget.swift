/// The time that clients may use in one tick of an event loop, and one of them in a row. Pure: times are passed in, in nanoseconds.
///
/// Clients run in slices. A slice ends when its client has nothing left to do, when it has used `longestSlice`, or when all
/// slices of the tick together have used `longestTick`; what is left waits for another tick. A single piece of work is never
/// interrupted, so a slice may exceed its limit by one piece.
package struct TickBudget {
    /// With what cannot be measured, the rest of the last piece and the system's part of reads, a tick stays near a millisecond.
    package static let longestTick: Int64 = 500_000
    package static let longestSlice: Int64 = 250_000
    /// Charged for each slice: the system call that read the client's bytes came before the first look at the clock.
    static let reading: Int64 = 3_000

    /// Used by the slices of this tick that have ended.
    package private(set) var spent: Int64 = 0
    private var sliceBegan: Int64?

    package init() {}

    /// Whether a slice may begin.
    package var hasRoom: Bool { spent < Self.longestTick }

    package mutating func begin(now: Int64) { sliceBegan = now }

    /// Whether the slice may go on.
    package func mayGoOn(now: Int64) -> Bool {
        guard let sliceBegan else { return false }
        let used = now - sliceBegan
        return used < Self.longestSlice && spent + used < Self.longestTick
    }

    /// Ends the slice.
    /// - Returns: whether it used all of the time that one client has in a row.
    package mutating func end(now: Int64) -> Bool {
        guard let sliceBegan else { return false }
        self.sliceBegan = nil
        let used = max(0, now - sliceBegan)
        spent += used + Self.reading
        return used >= Self.longestSlice
    }

    /// Adds work that is caused by a client and runs outside of its slice.
    package mutating func charge(_ nanoseconds: Int64) { spent += nanoseconds }

    package mutating func tickEnded() { spent = 0 }
}
