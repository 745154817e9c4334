/// The time that clients may use in one tick of an event loop, in total and per client. It does no I/O. All times are
/// in nanoseconds.
///
/// Clients run in slices. A slice ends when its client has nothing left to do, when the slice has used
/// `maximumSliceNanoseconds`, or when all slices of the tick together have used `maximumTickNanoseconds`. The remaining
/// work waits for another tick. A single piece of work is never interrupted, so a slice may exceed its limit by one
/// piece.
package struct TickBudget {
    /// The time for all slices of a tick. It leaves room for unmeasured time (the end of the last piece of work, the
    /// system calls of reads) in a tick of a millisecond.
    package static let maximumTickNanoseconds: Int64 = 500_000
    /// The time for one slice.
    private static let maximumSliceNanoseconds: Int64 = 250_000
    /// The charge for each slice, because the system call that read the client's bytes precedes the first reading of
    /// the clock.
    private static let readChargeNanoseconds: Int64 = 3_000

    /// The time of this tick's finished slices and charges. It excludes the current slice.
    package private(set) var spentNanoseconds: Int64 = 0
    /// The start of the current slice; `nil` between two slices.
    private var sliceStartNanoseconds: Int64?

    package init() {}

    /// Whether a slice may begin.
    package var hasTimeLeft: Bool { spentNanoseconds < Self.maximumTickNanoseconds }

    /// Begins a slice.
    package mutating func begin(nowNanoseconds: Int64) { sliceStartNanoseconds = nowNanoseconds }

    /// Returns whether the slice may continue.
    package func mayContinue(nowNanoseconds: Int64) -> Bool {
        guard let sliceStartNanoseconds else { return false }
        let usedNanoseconds = nowNanoseconds - sliceStartNanoseconds
        return usedNanoseconds < Self.maximumSliceNanoseconds
            && spentNanoseconds + usedNanoseconds < Self.maximumTickNanoseconds
    }

    /// Ends the slice.
    /// - Returns: whether the slice used all of the time for one slice.
    package mutating func end(nowNanoseconds: Int64) -> Bool {
        guard let start = sliceStartNanoseconds else { return false }
        sliceStartNanoseconds = nil
        let usedNanoseconds = max(0, nowNanoseconds - start)
        spentNanoseconds += usedNanoseconds + Self.readChargeNanoseconds
        return usedNanoseconds >= Self.maximumSliceNanoseconds
    }

    /// Adds the time of work that a client caused and that ran outside of its slice.
    package mutating func charge(_ nanoseconds: Int64) { spentNanoseconds += nanoseconds }

    /// Handles the end of the tick: the next tick has the whole budget.
    package mutating func tickEnded() { spentNanoseconds = 0 }
}
