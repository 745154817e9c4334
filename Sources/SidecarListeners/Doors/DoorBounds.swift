internal import InterlockCore

/// Bounds on what a request may ask for, at every door.
package enum DoorBounds {
    /// The longest time, in milliseconds: more than 30 years, and far from where sums of times overflow.
    package static let longestMilliseconds: Int64 = 1_000_000_000_000
    package static let fences: ClosedRange<Int64> = 1...(ScriptNumber.mostExact - 1)
}
