package import InterlockCore

/// A violation of an invariant.
package struct Violation: Hashable, Sendable, Codable, CustomStringConvertible {
    package var invariant: Invariant
    package var at: Instant
    /// The observation, with numbers.
    package var finding: String

    enum CodingKeys: String, CodingKey {
        case invariant = "promise"
        case at, finding
    }

    package init(_ invariant: Invariant, at: Instant, _ finding: String) {
        self.invariant = invariant
        self.at = at
        self.finding = finding
    }

    package var description: String { "\(invariant.rawValue) at \(at.nanoseconds / 1_000_000) ms: \(finding)" }
}
