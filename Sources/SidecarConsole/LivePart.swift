internal import InterlockCore
internal import SidecarListeners

/// A part of a view: one JSON object, shared by all consoles that show it.
enum LivePart: Hashable {
    case sidecar, redis, fleet, rates, events, domains
    case locks(search: ExactText, cursor: String)
    case lock(ResourceName)
    /// `nil` for the grants of all locks.
    case grants(ResourceName?)
    case services(search: ExactText, from: Int)
    case service(ExactText)
    case limits(ExactText)
    case lastMinute(ExactText)

    /// Whether the part is read from Redis.
    var isReadFromRedis: Bool {
        switch self {
        case .fleet, .locks, .lock, .limits: true
        case .sidecar, .redis, .rates, .events, .domains, .grants, .services, .service, .lastMinute: false
        }
    }

    /// The name of the object in a frame and of its event in a stream.
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
        case .lastMinute: "minute"
        }
    }
}

extension LiveView {
    /// The parts of the view, each of which is updated independently.
    var parts: [LivePart] {
        switch self {
        case .overview: [.sidecar, .redis, .fleet, .rates]
        case .locks(let search, let cursor): [.sidecar, .locks(search: search, cursor: cursor)]
        case .lock(let name): [.sidecar, .lock(name), .grants(name)]
        case .services(let search, let from): [.sidecar, .services(search: search, from: from)]
        case .service(let name): [.sidecar, .service(name), .limits(name), .lastMinute(name)]
        case .domains: [.sidecar, .domains]
        case .grants: [.sidecar, .grants(nil)]
        case .events: [.sidecar, .events]
        }
    }
}
