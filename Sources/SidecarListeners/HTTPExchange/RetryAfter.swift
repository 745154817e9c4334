internal import FoundationEssentials
internal import InterlockHTTP

/// The `Retry-After` field (RFC 9110, section 10.2.3): seconds, or a date.
package enum RetryAfter {
    /// The maximum wait, in seconds. Longer waits are reduced to it; no caller waits that long.
    package static let maximumSeconds: Int64 = 366 * 86_400

    /// Returns the wait in milliseconds; `nil` if the text is neither seconds nor a date.
    /// - Parameters:
    ///   - date: the response's `Date`, from which the wait until a date counts, because the server's clock may differ
    ///     from this host's; `nil` if the response has none.
    ///   - now: this host's time, as Unix time in seconds, from which the wait counts without `date`.
    package static func milliseconds(_ text: String, date: String? = nil, now: @autoclosure () -> Int64) -> Int64? {
        let text = OpaqueText.trimmed(text) ?? text
        if let seconds = Int64(text) { return seconds < 0 ? nil : min(seconds, maximumSeconds) * 1000 }
        guard let retrySecond = HTTPDate.second(text) else { return nil }
        let referenceSecond = date.flatMap { HTTPDate.second($0) } ?? now()
        return min(max(0, retrySecond - referenceSecond), maximumSeconds) * 1000
    }
}
