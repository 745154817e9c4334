internal import FoundationEssentials
internal import InterlockHTTP

/// The `Retry-After` field (RFC 9110, section 10.2.3): seconds, or a date.
package enum RetryAfter {
    /// The maximum wait, in seconds, which is longer than any caller waits. A longer one is reduced to this.
    package static let maximumSeconds: Int64 = 366 * 86_400

    /// Returns the wait in milliseconds; `nil` if the text is neither seconds nor a date.
    /// - Parameters:
    ///   - date: the response's `Date`, the reference for a date because the two clocks may differ; `nil` if it has
    ///     none.
    ///   - now: this host's time, as Unix time in seconds; the reference without `date`.
    package static func milliseconds(_ text: String, date: String? = nil, now: @autoclosure () -> Int64) -> Int64? {
        let text = OpaqueText.trimmed(text) ?? text
        if let seconds = Int64(text) { return seconds < 0 ? nil : min(seconds, maximumSeconds) * 1000 }
        guard let second = HTTPDate.second(text) else { return nil }
        let now = date.flatMap { HTTPDate.second($0) } ?? now()
        return min(max(0, second - now), maximumSeconds) * 1000
    }
}
