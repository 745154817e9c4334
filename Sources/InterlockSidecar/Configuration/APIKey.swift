/// One entry of `auth.keys`: a credential, who it stands for, and what it may do.
public struct APIKey: Sendable, Equatable {
    /// What a key may do.
    public enum Role: String, CaseIterable, Sendable {
        /// Locks, limits, permits, and reading.
        case use
        /// Also breaking locks, forcing breakers, and reloading.
        case admin
    }

    /// `name`: unique; keeps the rule of `ResourceName`.
    public var name: String
    /// The credential itself, from the variable that `key_env` names, or from `key`. Never logged.
    public var secret: String
    /// `role`: `use` or `admin`.
    public var role: Role

    public init(name: String, secret: String, role: Role) {
        self.name = name
        self.secret = secret
        self.role = role
    }
}

/// The secret is never shown.
extension APIKey: CustomStringConvertible, CustomReflectable {
    public var description: String { "APIKey(name: \(name), role: \(role))" }

    public var customMirror: Mirror { Mirror(self, children: ["name": name, "role": role]) }
}
