internal import FoundationEssentials

/// The details of an event.
package enum EventPayload: Hashable, Sendable {
    case breaker(BreakerEvent)
    case lock(LockEvent)
    case limit(LimitEvent)
    case fleet(FleetEvent)

    /// The `type` of the event's JSON.
    package var type: String {
        switch self {
        case .breaker: BreakerEvent.type
        case .lock(let event): event.kind.rawValue
        case .limit(let event): event.kind.rawValue
        case .fleet(let event): event.kind.rawValue
        }
    }

    /// Every known `type`.
    package static var allTypes: [String] {
        [BreakerEvent.type] + LockEvent.Kind.allCases.map(\.rawValue) + LimitEvent.Kind.allCases.map(\.rawValue)
            + FleetEvent.Kind.allCases.map(\.rawValue)
    }
}
