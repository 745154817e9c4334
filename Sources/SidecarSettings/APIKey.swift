/// An entry of `auth.keys`: a credential, its owner's name, and its role.
package struct APIKey: Sendable, Equatable {
    /// The permissions of a key.
    package enum Role: String, CaseIterable, Sendable {
        /// May read, and may use locks, limits and permits.
        case use
        /// May also break locks, force breakers and reload.
        case admin
    }

    /// `name`: the unique name, which is a valid `ResourceName`.
    package var name: String
    /// The credential, from the variable named by `key_env`, the file at `key_file`, or `key`. Never logged.
    package var secret: String
    /// `role`: `use` or `admin`.
    package var role: Role

    /// The length, in characters, below which a key causes a warning.
    static let minimumSafeLength = 16

    package init(name: String, secret: String, role: Role) {
        self.name = name
        self.secret = secret
        self.role = role
    }
}

/// Descriptions of a key never show its secret.
extension APIKey: CustomStringConvertible, CustomReflectable {
    package var description: String { "APIKey(name: \(name), role: \(role))" }

    package var customMirror: Mirror { Mirror(self, children: ["name": name, "role": role]) }
}
