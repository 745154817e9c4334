public import InterlockCore

/// A promise that was broken, and where.
public struct Violation: Hashable, Sendable, Codable, CustomStringConvertible {
    public var promise: Promise
    public var at: Instant
    /// What was seen, in numbers.
    public var finding: String

    public init(_ promise: Promise, at: Instant, _ finding: String) {
        self.promise = promise
        self.at = at
        self.finding = finding
    }

    public var description: String { "\(promise.rawValue) at \(at.nanoseconds / 1_000_000) ms: \(finding)" }
}
