/// The digests of all services and domains, and a combined digest. Sidecars use them to compare their configurations.
package struct ConfigurationDigest: Hashable, Sendable {
    /// The prefix of a domain's name in `services`. No service's name has a colon.
    package static let domainPrefix = "domain:"

    /// The digests of services by name, and of domains by name with `domainPrefix`.
    package let services: [String: String]
    /// The digest of all definitions, 16 hexadecimal digits. Sidecars with the same digest have the same services and
    /// domains.
    package let combined: String

    /// Creates the digest of a configuration.
    /// - Parameter domains: the digests of domains by name.
    package init(_ definitions: [ServiceDefinition], domains: [String: String] = [:]) {
        self.init(
            services: Dictionary(definitions.map { ($0.name, $0.digest) }, uniquingKeysWith: { $1 }), domains: domains)
    }

    /// Creates the digest from the digests of the definitions.
    package init(services: [String: String], domains: [String: String] = [:]) {
        var digests = services
        for (name, digest) in domains { digests[Self.domainPrefix + name] = digest }
        self.services = digests
        combined = TextDigest.of(Self.text(of: digests))
    }

    /// The names, each followed by its digest, sorted by name and separated by spaces, which no name contains.
    package var text: String { Self.text(of: services) }

    /// Parses the `text` that another sidecar published; returns `nil` if it is malformed.
    package init?(text: String) {
        let words = text.split(separator: " ")
        guard words.count.isMultiple(of: 2) else { return nil }
        self.init(
            services: Dictionary(
                stride(from: 0, to: words.count, by: 2).map { (String(words[$0]), String(words[$0 + 1])) },
                uniquingKeysWith: { $1 }))
    }

    /// Returns the services that this sidecar and other sidecars define differently. A service that only some sidecars
    /// define is not a difference, because sidecars may guard different services. O(n) in the services of all sidecars.
    /// - Parameters:
    ///   - others: the digests of other live sidecars, by ID.
    ///   - former: the result of the last comparison.
    ///   - unreadIDs: the IDs of sidecars whose changed digest is still being read. Their entries in `former` are kept.
    package func differences(
        from others: [String: ConfigurationDigest], keeping former: [ConfigurationDifference] = [],
        of unreadIDs: Set<String> = []
    ) -> [ConfigurationDifference] {
        var differingIDs: [String: [String]] = [:]
        for (id, other) in others where other.combined != combined {
            for (service, digest) in other.services where services[service].map({ $0 != digest }) ?? false {
                differingIDs[service, default: []].append(id)
            }
        }
        for difference in former where services[difference.service] != nil {
            let keptIDs = difference.sidecars.filter(unreadIDs.contains)
            if !keptIDs.isEmpty { differingIDs[difference.service, default: []] += keptIDs }
        }
        return differingIDs.sorted { $0.key < $1.key }.map {
            ConfigurationDifference(service: $0, sidecars: $1.sorted())
        }
    }

    private static func text(of digests: [String: String]) -> String {
        digests.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: " ")
    }
}

/// A service that live sidecars define differently.
package struct ConfigurationDifference: Hashable, Sendable {
    package var service: String
    /// The IDs of the sidecars whose definition differs from this sidecar's.
    package var sidecars: [String]
}
