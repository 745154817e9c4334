package import InterlockCore

/// A violation of an invariant.
package struct Violation: Hashable, Sendable, Codable, CustomStringConvertible {
    package var promise: Promise
    package var at: Instant
    /// The observation, with numbers.
    package var finding: String

    enum CodingKeys: String, CodingKey {
        case promise = "promise"
        case at, finding
    }

    package init(_ promise: Promise, at: Instant, _ finding: String) {
        self.promise = promise
        self.at = at
        self.finding = finding
    }

    package var description: String { "\(promise.rawValue) at \(at.nanoseconds / 1_000_000) ms: \(finding)" }
}
