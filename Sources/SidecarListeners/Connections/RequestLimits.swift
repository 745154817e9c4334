internal import InterlockCore

/// The limits on request parameters of all APIs.
package enum RequestLimits {
    /// The maximum time, in milliseconds: more than 30 years, but far from overflow when times are added.
    package static let maximumMilliseconds: Int64 = 1_000_000_000_000
    package static let fences: ClosedRange<Int64> = 1...(ScriptNumber.maximumExact - 1)
}
