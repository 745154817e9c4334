internal import InterlockCore

/// A part of a view: one JSON object, which all who look at it share.
enum LivePart: Hashable {
    case sidecar, redis, fleet, rates, events, domains
    case locks(search: ExactText, cursor: String)
    case lock(ResourceName)
    /// `nil`: of all locks.
    case grants(ResourceName?)
    case services(search: ExactText, from: Int)
    case service(ExactText)
    case limits(ExactText)
    case minute(ExactText)

    /// It is read from Redis.
    var isRead: Bool {
        switch self {
        case .fleet, .locks, .lock, .limits: true
        case .sidecar, .redis, .rates, .events, .domains, .grants, .services, .service, .minute: false
        }
    }

    /// The object's name in a frame, and its event's in a stream.
    var name: String {
        switch self {
        case .sidecar: "sidecar"
        case .redis: "redis"
        case .fleet: "fleet"
        case .rates: "rates"
        case .events: "events"
        case .domains: "domains"
        case .locks: "locks"
        case .lock: "lock"
        case .grants: "grants"
        case .services: "services"
        case .service: "service"
        case .limits: "limits"
        case .minute: "minute"
        }
    }
}
