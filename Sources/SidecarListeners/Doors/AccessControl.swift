internal import NIOConcurrencyHelpers
package import SidecarSettings

/// Who may do what: API keys and their roles. Without keys, whoever reaches a listener is admin.
///
/// Keys are kept and compared as SHA-256 digests, whose comparison takes the same time wherever they differ; all keys are
/// compared each time.
package final class AccessControl: Sendable {
    /// Somebody who has been let in.
    package struct Caller: Hashable, Sendable {
        /// The key's name, for the log and for the fleet; `anonymous` without keys.
        package var name: String
        package var role: APIKey.Role
        /// Of the key that was shown; `nil`: none was asked for.
        fileprivate var digest: SHA256Digest?

        /// As which the caller's connections take turns on the event loop; empty: those that show no key.
        var party: String { digest == nil ? "" : name }

        /// Whoever comes without a key.
        static func anonymous(_ role: APIKey.Role) -> Caller { Caller(name: "anonymous", role: role) }
    }

    /// A part in what changes, until it is ended.
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

    /// From now on these are the keys.
    package func replace(keys: [APIKey]) {
        let callers = Self.callers(keys)
        let observers: [@Sendable () -> Void] = state.withLockedValue { state in
            guard state.keys != callers else { return [] }
            state.keys = callers
            return Array(state.observers.values)
        }
        for observer in observers { observer() }
    }

    /// Calls `observer` whenever the keys have changed.
    func observe(_ observer: @escaping @Sendable () -> Void) -> Registration {
        state.withLockedValue { state in
            state.lastID += 1
            state.observers[state.lastID] = observer
            return Registration(id: state.lastID, access: self)
        }
    }

    /// Whether callers must show a key.
    package var requiresKey: Bool { state.withLockedValue { !$0.keys.isEmpty } }

    /// Whoever comes without a key; `nil` when one is required.
    package var anonymous: Caller? { requiresKey ? nil : .anonymous(.admin) }

    /// The caller whose key this is; with a name, it must be that key's.
    package func caller(key: String, name: String? = nil) -> Caller? {
        let digest = SHA256Digest(of: key)
        var found: Caller?
        for candidate in state.withLockedValue({ $0.keys }) {
            let isMatch = candidate.digest == digest
            if isMatch, name == nil || name == candidate.name { found = candidate }
        }
        return found
    }

    /// Returns what a caller who was let in before may do now; `nil`: the key was removed.
    package func current(_ caller: Caller) -> Caller? {
        guard let digest = caller.digest else { return anonymous }
        return state.withLockedValue { $0.keys.first { $0.digest == digest && $0.name == caller.name } }
    }
}
