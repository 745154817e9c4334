/// A sidecar that joined or left the fleet. A sidecar that crashes disappears from the fleet without an event.
public struct FleetEvent: Hashable, Sendable {
    /// Whether the sidecar joined or left.
    public enum Kind: String, CaseIterable, Sendable {
        /// The sidecar started.
        case joined = "fleet.joined"
        /// The sidecar shut down.
        case left = "fleet.left"
    }

    /// The kind of event.
    public var kind: Kind
    /// The sidecar's ID.
    public var sidecar: String

    package init(kind: Kind, sidecar: String) {
        self.kind = kind
        self.sidecar = sidecar
    }
}
