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

extension InterlockEvent<EventPayload> {
    /// The event in one human-readable sentence.
    package var sentence: String {
        switch payload {
        case .breaker(let event):
            "breaker \(event.service): \(event.breaker.state.rawValue)"
                + (event.breaker.reasons().isEmpty ? "" : " (\(event.breaker.reasons()))")
        case .lock(let event):
            switch event.kind {
            case .broken: "lock \(event.lock): broken" + (event.brokenBy.isEmpty ? "" : " by \(event.brokenBy)")
            }
        case .limit(let event):
            "limit \(event.limitName) of \(event.service)" + (event.subject.map { " for \($0)" } ?? "")
                + ": \(Self.verdict(event.kind)), \(event.used) of \(event.limit) used (seen by \(origin))"
        case .fleet(let event):
            switch event.kind {
            case .joined: "sidecar \(event.sidecar): joined the fleet"
            case .left: "sidecar \(event.sidecar): left the fleet"
            }
        }
    }

    private static func verdict(_ kind: LimitEvent.Kind) -> String {
        switch kind {
        case .near: "nearly reached"
        case .reached: "reached"
        case .shadow: "would have refused a call"
        }
    }
}
