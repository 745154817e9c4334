/// The behavior of a service's limits and breaker while Redis is unreachable.
public enum OutagePolicy: String, CaseIterable, Hashable, Sendable {
    /// This sidecar grants its own quota: limit ÷ sidecars.
    case local
    /// Everything is granted.
    case allow
    /// Everything is refused as unavailable.
    case deny
}

extension OutagePolicy: DigestedSetting {}
