/// By what sidecars tell each other which definitions of services and domains they run with: one digest for each, and one of them all.
package struct ConfigurationDigest: Hashable, Sendable {
    /// What stands before a domain's name: no service's has a colon.
    package static let domainPrefix = "domain:"

    /// The definitions' digests by the services' names, and by the domains' behind `domainPrefix`.
    package let services: [String: String]
    /// Of all of them: two sidecars with the same one run with the same services and domains. 16 hexadecimal digits.
    package let whole: String

    /// - Parameter domains: the digests of domains, by their names.
    package init(_ definitions: [ServiceDefinition], domains: [String: String] = [:]) {
        self.init(services: Dictionary(definitions.map { ($0.name, $0.digest) }, uniquingKeysWith: { $1 }), domains: domains)
    }

    /// Of digests that are known.
    package init(services: [String: String], domains: [String: String] = [:]) {
        var digests = services
        for (name, digest) in domains { digests[Self.domainPrefix + name] = digest }
        self.services = digests
        whole = TextDigest.of(Self.text(of: digests))
    }

    /// Names and digests by turns, with spaces between, by name: no name has a space.
    package var text: String { Self.text(of: services) }

    /// What another sidecar has published as its `text`; `nil`: it is none.
    package init?(text: String) {
        let words = text.split(separator: " ")
        guard words.count.isMultiple(of: 2) else { return nil }
        self.init(
            services: Dictionary(
                stride(from: 0, to: words.count, by: 2).map { (String(words[$0]), String(words[$0 + 1])) },
                uniquingKeysWith: { $1 }))
    }

    /// The services that this sidecar and others define differently. One that only some of them define is no difference: sidecars
    /// may guard different services. O(n) in services of all of them.
    /// - Parameters:
    ///   - others: what other live sidecars run with, by their IDs.
    ///   - former: what was found last.
    ///   - unknown: sidecars that run with something else since, which is being read: what was found last of them stands.
    package func differences(
        from others: [String: ConfigurationDigest], keeping former: [ConfigurationDifference] = [], of unknown: Set<String> = []
    ) -> [ConfigurationDifference] {
        var sidecars: [String: [String]] = [:]
        for (id, other) in others where other.whole != whole {
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
    /// The IDs of those whose definition is not this sidecar's.
    package var sidecars: [String]
}
