/// A change of a breaker.
public struct BreakerEvent: Hashable, Sendable {
    /// The `type` of the event in JSON.
    package static let type = "breaker"

    /// The service's name.
    public var service: String
    /// The breaker after the change.
    public var breaker: BreakerSnapshot

    package init(service: String, breaker: BreakerSnapshot) {
        self.service = service
        self.breaker = breaker
    }
}
