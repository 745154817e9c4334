public import InterlockCore

/// A breaker changed.
public struct BreakerEvent: Hashable, Sendable {
    public static let type = "breaker"

    public var service: String
    /// What it changed to.
    public var breaker: BreakerSnapshot

    public init(service: String, breaker: BreakerSnapshot) {
        self.service = service
        self.breaker = breaker
    }
}
