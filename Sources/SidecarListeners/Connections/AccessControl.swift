internal import NIOConcurrencyHelpers
package import SidecarSettings

/// The API keys and their roles. If no keys are configured, every client that reaches a listener is an admin.
///
/// Keys are stored as SHA-256 digests.
package final class AccessControl: Sendable {
    /// An admitted client.
    package struct Caller: Hashable, Sendable {
        /// The name of the client's key, for the log and the fleet; `anonymous` if no keys are configured.
        package var name: String
        package var role: APIKey.Role
        /// The digest of the client's key; `nil` if no key is required.
        fileprivate var digest: SHA256Digest?

        /// The name under which the caller's connections take turns on the event loop; empty without a key.
        var clientName: String { digest == nil ? "" : name }

        /// Returns a client without a key, with this role.
        static func anonymous(_ role: APIKey.Role) -> Caller { Caller(name: "anonymous", role: role) }
    }

    /// A subscription to changes of the keys, until `end`.
    struct Registration {
        fileprivate let id: Int
        fileprivate let access: AccessControl

        func end() { access.state.withLockedValue { $0.observers[id] = nil } }
    }

    private struct State {
        var keys: [Caller]
        var observers: [Int: @Sendable () -> Void] = [:]
        var lastID = 0
    }

    private let state: NIOLockedValueBox<State>

    package init(keys: [APIKey]) {
        state = NIOLockedValueBox(State(keys: Self.callers(keys)))
    }

    private static func callers(_ keys: [APIKey]) -> [Caller] {
        keys.map { Caller(name: $0.name, role: $0.role, digest: SHA256Digest(of: $0.secret)) }
    }

    /// Replaces the keys, and notifies the observers if they changed.
    package func replace(keys: [APIKey]) {
        let callers = Self.callers(keys)
        let observers: [@Sendable () -> Void] = state.withLockedValue { state in
            guard state.keys != callers else { return [] }
            state.keys = callers
            return Array(state.observers.values)
        }
        for observer in observers { observer() }
    }

    /// Calls `observer` after each change of the keys.
    func observe(_ observer: @escaping @Sendable () -> Void) -> Registration {
        state.withLockedValue { state in
            state.lastID += 1
            state.observers[state.lastID] = observer
            return Registration(id: state.lastID, access: self)
        }
    }

    /// Whether a caller must present a key.
    package var requiresKey: Bool { state.withLockedValue { !$0.keys.isEmpty } }

    /// The caller that represents every client without a key; `nil` if a key is required.
    package var anonymous: Caller? { requiresKey ? nil : .anonymous(.admin) }

    /// Returns the caller with this key; `nil` if there is none, or if `name` is given and is not the key's name.
    /// Comparing two digests takes constant time, and all keys are compared, so that the time does not reveal a key.
    package func caller(key: String, name: String? = nil) -> Caller? {
        let digest = SHA256Digest(of: key)
        var match: Caller?
        for candidate in state.withLockedValue({ $0.keys }) {
            let hasDigest = candidate.digest == digest
            if hasDigest, name == nil || name == candidate.name { match = candidate }
        }
        return match
    }

    /// Returns the current rights of a caller that was admitted before; `nil` if the key was removed.
    package func current(_ caller: Caller) -> Caller? {
        guard let digest = caller.digest else { return anonymous }
        return state.withLockedValue { $0.keys.first { $0.digest == digest && $0.name == caller.name } }
    }
}
