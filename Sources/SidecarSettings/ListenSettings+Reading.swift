import InterlockCore
import InterlockHTTP

extension ListenSettings {
    static let respPath = "listen.resp"
    static let httpPath = "listen.http"
    static let grpcPath = "listen.grpc"
    private static let connectionCountRange = 1...1_000_000
    /// The maximum length of a socket's path, in bytes: the 108 bytes of `sockaddr_un`, less the terminating NUL and
    /// the temporary suffix.
    private static let maximumSocketPathBytes = 107 - UnixSocketSettings.maximumSuffixBytes

    mutating func read(_ value: ConfigurationValue) {
        value.section(shorthand: "resp") { section in
            section.read("resp", into: &resp) { $0.endpoint() }
            section.read("http", into: &http) { $0.endpoint() }
            section.readOptional("grpc", into: &grpc) { $0.endpoint() }
            section.readOptional("unix", into: &unix) { $0.parsed(by: Self.checkedSocketPath) }
            section.readOptional("unix_mode", into: &unixMode) { $0.parsed(by: SocketMode.init(parsing:)) }
            section.readOptional("unix_group", into: &unixGroup) { value in
                value.parsed(by: { name throws(InvalidConfigurationValue) in
                    // Another host, where a file may be checked, has other groups.
                    value.findings.readsSecrets ? try Self.checkedGroup(name) : name
                })
            }
            section.read("hosts") { hosts = $0.list().compactMap { $0.parsed(by: Self.checkedHost) } }
            section.readOptional("tls", into: &tls) { TLSSettings(reading: $0) }
            section.read("allow_plaintext", into: &allowsPlaintext) { $0.flag() }
            section.read("max_connections", into: &maximumConnections) { $0.wholeNumber(in: Self.connectionCountRange) }
        }
    }

    static func checkedSocketPath(_ path: String) throws(InvalidConfigurationValue) -> String {
        let isAcceptable = !path.isEmpty && path.utf8.count <= maximumSocketPathBytes && !path.utf8.contains(0)
        guard isAcceptable else { throw InvalidConfigurationValue("the path of a socket, 1-\(maximumSocketPathBytes) bytes") }
        return path
    }

    static func checkedGroup(_ group: String) throws(InvalidConfigurationValue) -> String {
        guard UnixSocketSettings.groupID(of: group) != nil else {
            throw InvalidConfigurationValue("the name of an existing group, or a number")
        }
        return group
    }

    private static func checkedHost(_ host: String) throws(InvalidConfigurationValue) -> String {
        guard SocketEndpoint.isHostName(host) else {
            throw InvalidConfigurationValue("a host name without a port, such as interlock.internal")
        }
        return host
    }
}

extension TLSSettings {
    /// Returns `nil` if a setting is missing or invalid.
    fileprivate init?(reading value: ConfigurationValue) {
        var certificate: String?
        var key: String?
        var grpcClientAuthorities: String?
        value.section { section in
            certificate = section.required("certificate", "the path of a PEM file", Self.file)
            key = section.required("key", "the path of a PEM file", Self.file)
            section.readOptional("grpc_client_ca", into: &grpcClientAuthorities, Self.file)
        }
        guard let certificate, let key else { return nil }
        self.init(certificate: certificate, key: key, grpcClientAuthorities: grpcClientAuthorities)
        guard value.findings.readsSecrets else { return }
        do {
            try check()
        } catch {
            value.reject(error.description)
            return nil
        }
    }

    /// Reads the path of a PEM file. The file must be readable, unless this is a check on another host.
    static func file(_ value: ConfigurationValue) -> String? {
        value.parsed { path throws(InvalidConfigurationValue) in
            guard !value.findings.readsSecrets || ConfigurationFile(path: path).isReadable else {
                throw InvalidConfigurationValue("the path of a readable PEM file")
            }
            return path
        }
    }
}

extension TLSSettings {
    /// Reads the path of a PEM file with CA certificates for verifying a peer's certificate.
    static func authorities(_ value: ConfigurationValue) -> String? {
        guard let path = file(value) else { return nil }
        guard value.findings.readsSecrets else { return path }
        guard (try? HTTPOrigin.clientTLS(certificateAuthority: path)) != nil else {
            value.reject("\(path) contains no CA certificate in PEM format")
            return nil
        }
        return path
    }

    /// Returns a digest of the file's content, so that a reload notices a change even if the path stays the same.
    static func digest(ofFile path: String?) -> [UInt8]? {
        guard let path, let text = try? ConfigurationFile(path: path).text() else { return nil }
        return SHA256Digest(of: text).bytes
    }
}

extension ConfigurationValue {
    /// Reads HOST:PORT and records its location for rules that check all listeners together.
    fileprivate func endpoint() -> SocketEndpoint? {
        findings.locations[path] = location
        return parsed(by: SocketEndpoint.init(parsing:))
    }
}

extension APIKey {
    /// Reads `auth.keys`. Invalid keys are reported and omitted.
    static func list(_ value: ConfigurationValue, environment: [String: String]) -> [APIKey] {
        var keys: [APIKey] = []
        for item in value.list() {
            guard let key = APIKey(reading: item, environment: environment) else { continue }
            if keys.contains(where: { $0.name == key.name }) {
                item.reject("duplicate key name \"\(key.name)\"; each key needs its own name")
            } else if let other = keys.first(where: { $0.secret == key.secret }) {
                item.reject("the keys \"\(other.name)\" and \"\(key.name)\" have the same secret; give each its own")
            } else {
                keys.append(key)
            }
        }
        return keys
    }

    private init?(reading value: ConfigurationValue, environment: [String: String]) {
        var name: String?
        var role: Role?
        var secret: String?
        value.section { section in
            name = section.required("name", "a name") { $0.parsed(insteadOf: ResourceName.expectedPart) }
            role = section.required("role", "use or admin") { $0.parsed(by: Role.init(parsing:)) }
            secret = Self.secret(in: section, environment: environment)
        }
        guard let name, let role, let secret else { return nil }
        self.init(name: name, secret: secret, role: role)
    }

    /// Returns the secret that `key_env`, `key_file` or `key` specifies, and reports mistakes.
    private static func secret(in section: ConfigurationSection, environment: [String: String]) -> String? {
        let variable = section.value("key_env")
        // Concealed, because the value may be the key itself, entered in the wrong field.
        let file = section.value("key_file")?.concealed()
        let literal = section.value("key")?.concealed()
        let isUnread = !section.mapping.findings.readsSecrets
        switch (variable, file, literal) {
        case (let variable?, nil, nil) where isUnread: return placeholder(for: variable, checkedVariableName)
        case (nil, let file?, nil) where isUnread: return placeholder(for: file) { $0 }
        case (let variable?, nil, nil): return secret(fromVariableNamedBy: variable, environment: environment)
        case (nil, let file?, nil): return SecretFile.secret(namedBy: file, checkedBy: checkedSecret)
        case (nil, nil, let literal?): return literal.parsed(by: checkedSecret)
        case (nil, nil, nil):
            section.mapping.reject(
                "expected key_env (an environment variable that holds the key) or key_file (a file that holds it)"
            )
        default:
            (literal ?? file)?.reject("expected only one of key_env, key_file and key")
        }
        return nil
    }

    /// Returns a placeholder for a key that is not read, unique to its variable or file.
    private static func placeholder(
        for value: ConfigurationValue, _ check: (String) throws(InvalidConfigurationValue) -> String
    ) -> String? {
        guard let location = value.concealed().parsed(by: check) else { return nil }
        value.findings.variables.insert(location)
        return "unread:" + location
    }

    private static func secret(
        fromVariableNamedBy value: ConfigurationValue,
        environment: [String: String]
    ) -> String? {
        // Concealed unless it is a valid variable name, because it may be the key itself, entered in the wrong field.
        guard let name = value.concealed().parsed(by: checkedVariableName) else { return nil }
        value.findings.variables.insert(name)
        guard let secret = environment[name], !secret.isEmpty else {
            value.reject("the environment variable \(name) is \(environment[name] == nil ? "not set" : "empty")")
            return nil
        }
        do {
            return try checkedSecret(secret)
        } catch {
            value.reject(error.message(got: "another value in the environment variable \(name)"))
            return nil
        }
    }

    private static func checkedSecret(_ secret: String) throws(InvalidConfigurationValue) -> String {
        let isAcceptable = !secret.isEmpty && secret.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        guard isAcceptable else {
            throw InvalidConfigurationValue("a key of printable ASCII without spaces or line breaks")
        }
        return secret
    }

    private static func checkedVariableName(_ name: String) throws(InvalidConfigurationValue) -> String {
        let isAcceptable =
            name.utf8.first.map { !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ?? false
            && name.unicodeScalars.allSatisfy { scalar in
                switch scalar {
                case "A"..."Z", "a"..."z", "0"..."9", "_": true
                default: false
                }
            }
        guard isAcceptable else {
            throw InvalidConfigurationValue("the name of an environment variable such as INTERLOCK_OPS_KEY")
        }
        return name
    }
}
