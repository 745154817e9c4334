internal import InterlockCore

/// The limits on request parameters of all APIs.
package enum RequestLimits {
    /// The maximum duration, in milliseconds: more than 30 years, but far from overflow when durations are added.
    package static let maximumMilliseconds: Int64 = 1_000_000_000_000
    /// The valid fencing tokens.
    package static let fenceRange: ClosedRange<Int64> = 1...(ScriptNumber.maximumExact - 1)
}
