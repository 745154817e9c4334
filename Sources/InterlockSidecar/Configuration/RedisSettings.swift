internal import Interlock
internal import InterlockCore

/// `redis`: the server that the fleet shares, and how its keys begin.
package struct RedisSettings: Sendable, Equatable {
    /// `redis.url`: `redis://`, `rediss://` or `unix://`. `nil`, the default: the sidecar starts a private server of its own.
    package var url: String?
    /// `redis.urls`: independent servers of which a majority grants each lock, 3–15, beside `redis.url`. None by default: locks
    /// are in `redis.url` as everything else is.
    package var urls: [String] = []
    /// `redis.prefix`: what every key begins with, 1–64 bytes without control characters, spaces or braces; `interlock:`.
    package var prefix = InterlockConfiguration.defaultPrefix
    /// `redis.timeout`: when an answer has not come after so long, Redis counts as away. 10ms–1m, 500ms by default.
    package var timeout: Duration = .milliseconds(500)

    package init() {}

    /// Whether the sidecar starts a private server because none was named.
    package var isEmbedded: Bool { url == nil }
    /// `redis.embedded`: that is meant so. Only a file says it: whoever starts a sidecar without one tries it out.
    package var isEmbeddedOnPurpose = false
    /// `redis.password_file`: the password of every server is what stands there, but for a line's end.
    package var passwordFile: String?
}

/// A password in the URL is never shown.
extension RedisSettings: CustomStringConvertible, CustomReflectable {
    package var description: String {
        "RedisSettings(url: \(maskedURL ?? "embedded"), urls: \(maskedURLs), prefix: \(prefix), timeout: \(timeout))"
    }

    package var customMirror: Mirror {
        Mirror(self, children: ["url": maskedURL as Any, "urls": maskedURLs, "prefix": prefix, "timeout": timeout])
    }

    /// The URL without user name, password and query: for logs. `nil` when embedded.
    package var maskedURL: String? { url.map(ConfigurationValue.masked) }

    private var maskedURLs: [String] { urls.map(ConfigurationValue.masked) }
}

extension RedisSettings {
    mutating func read(_ value: ConfigurationValue, environment: [String: String]) {
        value.section(shorthand: "url") { section in
            section.readOptional("url", into: &url) { $0.parsed(by: Self.checkedURL) }
            section.read("url_env") { value in
                let findings = value.findings
                let found = value.parsed { variable throws(ConfigurationExpectation) in
                    findings.variables.insert(variable)
                    guard findings.readsSecrets else { return Self.unread }
                    guard let text = environment[variable], !text.isEmpty else {
                        throw ConfigurationExpectation(
                            "the name of an environment variable that holds the URL; this one is not set")
                    }
                    return try Self.checkedURL(text)
                }
                if let found { url = found }
            }
            section.readOptional("password_file", into: &passwordFile) { $0.parsed { $0 } }
            section.read("embedded", into: &isEmbeddedOnPurpose) { $0.flag() }
            section.read("urls") { urls = Self.quorum($0) }
            section.read("prefix", into: &prefix) {
                $0.parsed { ResourceName.expectedPrefix(insteadOf: $0, isEmptyAllowed: false) }
            }
            section.read("timeout", into: &timeout) { $0.duration(in: InterlockConfiguration.timeouts) }
            section.refuse(["cluster", "sentinel", "nodes"], "is not supported by this version; give one redis.url")
        }
    }

    /// Stands for a URL that is not looked for.
    private static let unread = "redis://unread"
    /// The schemes that are carried out. What follows is parsed by whoever connects.
    private static let schemes = ["redis://", "rediss://", "unix://"]

    static func checkedURL(_ text: String) throws(ConfigurationExpectation) -> String {
        guard let scheme = schemes.first(where: { text.lowercased().hasPrefix($0) }), text.count > scheme.count else {
            throw ConfigurationExpectation("a URL that begins with redis://, rediss:// or unix:// (others are not supported)")
        }
        guard !text.contains("${") else {
            throw ConfigurationExpectation(
                "a URL as it is, for nothing is filled in: name a variable that holds it as redis.url_env, or put the password in a file "
                    + "and that as redis.password_file")
        }
        guard !text.unicodeScalars.contains(where: ConfigurationText.isSpaceOrControl) else {
            throw ConfigurationExpectation("a URL without spaces or control characters")
        }
        return text
    }
}
