/// What a service's limits and breaker do while Redis cannot be reached.
public enum OutagePolicy: String, CaseIterable, Hashable, Sendable {
    /// This sidecar grants its own share: limit ÷ sidecars.
    case local
    /// Everything is granted.
    case allow
    /// Everything is refused as unavailable.
    case deny
}
