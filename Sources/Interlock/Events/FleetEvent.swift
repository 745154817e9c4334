/// A sidecar came or went. One that dies is not told of: it is off the list when its time is up.
public struct FleetEvent: Hashable, Sendable {
    public enum Kind: String, CaseIterable, Sendable {
        case joined = "fleet.joined"
        case left = "fleet.left"
    }

    public var kind: Kind
    /// The sidecar's ID.
    public var sidecar: String

    public init(kind: Kind, sidecar: String) {
        self.kind = kind
        self.sidecar = sidecar
    }
}
