internal import Crypto

/// Who may do what: API keys and their roles. Without keys, whoever reaches a listener is admin.
///
/// Keys are kept and compared as SHA-256 digests, whose comparison takes the same time wherever they differ; all keys are
/// compared each time.
public struct AccessControl: Sendable {
    /// Somebody who has been let in.
    public struct Caller: Hashable, Sendable {
        /// The key's name, for the log and for the fleet; `anonymous` without keys.
        public var name: String
        public var role: APIKey.Role
    }

    private let keys: [(name: String, role: APIKey.Role, digest: SHA256.Digest)]

    public init(keys: [APIKey]) {
        self.keys = keys.map { ($0.name, $0.role, SHA256.hash(data: Array($0.secret.utf8))) }
    }

    /// Whether callers must show a key.
    public var requiresKey: Bool { !keys.isEmpty }

    /// Whoever comes without a key; `nil` when one is required.
    public var anonymous: Caller? {
        requiresKey ? nil : Caller(name: "anonymous", role: .admin)
    }

    /// The caller whose key this is; with a name, it must be that key's.
    public func caller(key: String, name: String? = nil) -> Caller? {
        let digest = SHA256.hash(data: Array(key.utf8))
        var found: Caller?
        for candidate in keys {
            let isMatch = candidate.digest == digest
            if isMatch, name == nil || name == candidate.name {
                found = Caller(name: candidate.name, role: candidate.role)
            }
        }
        return found
    }
}
