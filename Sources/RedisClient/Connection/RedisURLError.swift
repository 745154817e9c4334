internal import FoundationEssentials

/// An invalid Redis URL. Never contains the URL itself, which may hold a password.
package struct RedisURLError: Error, Hashable, Sendable, CustomStringConvertible {
    package var reason: String

    package var description: String { "invalid Redis URL: \(reason)" }
}
