internal import FoundationEssentials

/// The `Retry-After` field (RFC 9110, section 10.2.3): seconds, or a date.
package enum RetryAfter {
    /// Longer than anybody waits; what is above it counts as it.
    package static let longestSeconds: Int64 = 366 * 86_400

    /// In milliseconds from now; `nil`: it is neither.
    package static func milliseconds(_ text: String) -> Int64? {
        if let seconds = Int64(text) { return seconds < 0 ? nil : min(seconds, longestSeconds) * 1000 }
        guard let second = HTTPDate.second(text) else { return nil }
        let now = Int64(Date.now.timeIntervalSince1970.rounded(.down))
        return min(max(0, second - now), longestSeconds) * 1000
    }
}
