internal import InterlockCore

extension Instant {
    /// Earlier than every instant that a clock will ever show.
    static let distantPast = Instant(nanoseconds: .min)

    /// In milliseconds, to the microsecond, as findings tell it.
    var inMilliseconds: String {
        let microseconds = nanoseconds / 1000
        let fraction = String(abs(microseconds % 1000))
        return "\(microseconds / 1000).\(String(repeating: "0", count: 3 - fraction.count))\(fraction)"
    }
}
