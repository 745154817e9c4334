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
