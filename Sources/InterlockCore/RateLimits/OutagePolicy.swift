/// The behavior of a service's limits and breaker while Redis is unreachable.
public enum OutagePolicy: String, CaseIterable, Hashable, Sendable {
    /// Each sidecar grants its own quota: limit ÷ sidecars.
    case local
    /// All calls are granted.
    case allow
    /// All calls are refused as unavailable.
    case deny
}

extension OutagePolicy: DigestedSetting {}
