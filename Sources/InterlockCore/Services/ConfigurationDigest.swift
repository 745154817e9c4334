/// By what sidecars tell each other which definitions of services they run with: one digest for each service, and one of them all.
package struct ConfigurationDigest: Hashable, Sendable {
    /// The definitions' digests by the services' names.
    package let services: [String: String]
    /// Of all of them: two sidecars with the same one run with the same services. 16 hexadecimal digits.
    package let whole: String

    package init(_ definitions: [ServiceDefinition]) {
        self.init(services: Dictionary(definitions.map { ($0.name, $0.digest) }, uniquingKeysWith: { $1 }))
    }

    private init(services: [String: String]) {
        self.services = services
        whole = TextDigest.of(Self.text(of: services))
    }

    /// Names and digests by turns, with spaces between, by name: no name has a space.
    package var text: String { Self.text(of: services) }

    private static func text(of services: [String: String]) -> String {
        services.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: " ")
    }
}

/// 64 bits of a text, as 16 hexadecimal digits: FNV-1a, the same in every process, which Swift's own hashes are not.
enum TextDigest {
    static func of(_ text: String) -> String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return OwnerToken.hexadecimal(hash)
    }
}
