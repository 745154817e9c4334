/// The digests of all services and domains, and one digest of them all, by which sidecars compare their configurations.
package struct ConfigurationDigest: Hashable, Sendable {
    /// The prefix of a domain's name; no service's name has a colon.
    package static let domainPrefix = "domain:"

    /// The digests of services by name, and of domains by name with `domainPrefix`.
    package let services: [String: String]
    /// The digest of all definitions: sidecars with the same one run the same services and domains. 16 hexadecimal
    /// digits.
    package let combined: String

    /// - Parameter domains: the digests of domains by name.
    package init(_ definitions: [ServiceDefinition], domains: [String: String] = [:]) {
        self.init(services: Dictionary(definitions.map { ($0.name, $0.digest) }, uniquingKeysWith: { $1 }), domains: domains)
    }

    /// Creates the digest from the digests of the definitions.
    package init(services: [String: String], domains: [String: String] = [:]) {
        var digests = services
        for (name, digest) in domains { digests[Self.domainPrefix + name] = digest }
        self.services = digests
        combined = TextDigest.of(Self.text(of: digests))
    }

    /// The names, each followed by its digest, separated by spaces and sorted by name; names contain no spaces.
    package var text: String { Self.text(of: services) }

    /// Reads the `text` that another sidecar published; returns `nil` if it is malformed.
    package init?(text: String) {
        let words = text.split(separator: " ")
        guard words.count.isMultiple(of: 2) else { return nil }
        self.init(
            services: Dictionary(
                stride(from: 0, to: words.count, by: 2).map { (String(words[$0]), String(words[$0 + 1])) },
                uniquingKeysWith: { $1 }))
    }

    /// Returns the services that this sidecar and others define differently. A service that only some of them define is
    /// not a difference, because sidecars may guard different services. O(n) in all their services.
    /// - Parameters:
    ///   - others: the digests of other live sidecars, by ID.
    ///   - former: the last result.
    ///   - unknown: the IDs of sidecars whose changed digest is still being read; their entries in `former` are kept.
    package func differences(
        from others: [String: ConfigurationDigest], keeping former: [ConfigurationDifference] = [], of unknown: Set<String> = []
    ) -> [ConfigurationDifference] {
        var sidecars: [String: [String]] = [:]
        for (id, other) in others where other.combined != combined {
            for (service, digest) in other.services where services[service].map({ $0 != digest }) ?? false {
                sidecars[service, default: []].append(id)
            }
        }
        for difference in former where services[difference.service] != nil {
            let kept = difference.sidecars.filter(unknown.contains)
            if !kept.isEmpty { sidecars[difference.service, default: []] += kept }
        }
        return sidecars.sorted { $0.key < $1.key }.map { ConfigurationDifference(service: $0, sidecars: $1.sorted()) }
    }

    private static func text(of services: [String: String]) -> String {
        services.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: " ")
    }
}

/// A service that live sidecars define differently.
package struct ConfigurationDifference: Hashable, Sendable {
    package var service: String
    /// The IDs of the sidecars whose definition differs from this sidecar's.
    package var sidecars: [String]
}
