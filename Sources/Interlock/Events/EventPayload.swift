/// What an event is about.
public enum EventPayload: Hashable, Sendable {
    case breaker(BreakerEvent)
    case lock(LockEvent)
    case limit(LimitEvent)
    case fleet(FleetEvent)

    /// The `type` of the event's JSON.
    public var type: String {
        switch self {
        case .breaker: BreakerEvent.type
        case .lock(let event): event.kind.rawValue
        case .limit(let event): event.kind.rawValue
        case .fleet(let event): event.kind.rawValue
        }
    }

    /// Every `type` that there is.
    public static var allTypes: [String] {
        [BreakerEvent.type] + LockEvent.Kind.allCases.map(\.rawValue) + LimitEvent.Kind.allCases.map(\.rawValue)
            + FleetEvent.Kind.allCases.map(\.rawValue)
    }
}
