internal import CLibMD
internal import NIOConcurrencyHelpers

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
    func replace(keys: [APIKey]) {
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
    func current(_ caller: Caller) -> Caller? {
        guard let digest = caller.digest else { return anonymous }
        return state.withLockedValue { $0.keys.first { $0.digest == digest && $0.name == caller.name } }
    }
}

/// One entry of `auth.keys`: a credential, who it stands for, and what it may do.
package struct APIKey: Sendable, Equatable {
    /// What a key may do.
    package enum Role: String, CaseIterable, Sendable {
        /// Locks, limits, permits, and reading.
        case use
        /// Also breaking locks, forcing breakers, and reloading.
        case admin
    }

    /// `name`: unique; keeps the rule of `ResourceName`.
    package var name: String
    /// The credential itself, from the variable that `key_env` names, from the file at `key_file`, or from `key`. Never logged.
    package var secret: String
    /// `role`: `use` or `admin`.
    package var role: Role

    /// A key of fewer characters is warned of.
    static let shortestSafe = 16

    package init(name: String, secret: String, role: Role) {
        self.name = name
        self.secret = secret
        self.role = role
    }
}

/// The secret is never shown.
extension APIKey: CustomStringConvertible, CustomReflectable {
    package var description: String { "APIKey(name: \(name), role: \(role))" }

    package var customMirror: Mirror { Mirror(self, children: ["name": name, "role": role]) }
}

/// The SHA-256 of a text. Whether two are the same takes the same time to find out wherever they differ.
struct SHA256Digest: Hashable, Sendable {
    let bytes: [UInt8]

    init(of text: String) {
        let text = Array(text.utf8)
        var context = SHA2_CTX()
        SHA256Init(&context)
        SHA256Update(&context, text, text.count)
        var bytes = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
        SHA256Final(&bytes, &context)
        self.bytes = bytes
    }

    static func == (one: SHA256Digest, other: SHA256Digest) -> Bool {
        zip(one.bytes, other.bytes).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
