internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import NIOSSL
package import RedisClient

/// `redis`: the Redis that the fleet shares, and the prefix of its keys.
package struct RedisSettings: Sendable, Equatable {
    /// `redis.url`: a URL with the scheme `redis`, `rediss` or `unix` for a server, `redis+sentinel` or
    /// `rediss+sentinel` for Sentinels, or `redis+cluster` or `rediss+cluster` for a cluster. If the file sets
    /// `redis.sentinels` and `redis.primary`, or `redis.cluster`, the URL is composed from them. If it is `nil`, which
    /// is the default, the sidecar starts a private server.
    package var url: String?
    /// `redis.urls`: 3–15 independent servers in addition to `redis.url`. A majority of them grants each lock. If the
    /// list is empty, which is the default, locks are stored in `redis.url` like all other data.
    package var urls: [String] = []
    /// `redis.prefix`: the prefix of every key, 1–64 bytes without control characters, spaces or braces; `interlock:`
    /// by default.
    package var prefix = InterlockConfiguration.defaultPrefix
    /// `redis.timeout`: the time without a reply after which Redis counts as unreachable, 10ms–1m; 500ms by default.
    package var timeout: Duration = .milliseconds(500)

    /// `redis.embedded`: whether the private server is intended. A file that names no other Redis must set it, so that
    /// a missing URL is noticed. Without a file, the private server is the default.
    package var isExplicitlyEmbedded = false
    /// `redis.password_file`: a file with the password of every server, optionally followed by a line end.
    package var passwordFile: String?
    /// `redis.sentinel_password_file`: a file with the password of the Sentinels, in the same format.
    package var sentinelPasswordFile: String?
    /// `redis.tls`: the trusted authorities and the sidecar's own certificate; `nil` to trust the authorities of this
    /// host and present no certificate.
    package var tls: RedisTLSSettings?

    package init() {}

    /// Whether the sidecar starts a private server, because none is configured.
    package var isEmbedded: Bool { url == nil }
}

/// Descriptions of the settings never show a password.
extension RedisSettings: CustomStringConvertible, CustomReflectable {
    package var description: String {
        "RedisSettings(url: \(maskedURL ?? "embedded"), urls: \(maskedURLs), prefix: \(prefix), timeout: \(timeout))"
    }

    package var customMirror: Mirror {
        Mirror(self, children: ["url": maskedURL as Any, "urls": maskedURLs, "prefix": prefix, "timeout": timeout])
    }

    /// The URL without user name, password and query, for logs; `nil` if Redis is embedded.
    package var maskedURL: String? { url.map { "\(RedactedURL($0))" } }

    private var maskedURLs: [String] { urls.map { "\(RedactedURL($0))" } }
}

extension RedisSettings {
    mutating func read(_ value: ConfigurationValue, environment: [String: String]) {
        value.section(shorthand: "url") { section in
            section.readOptional("url", into: &url) { $0.parsed(by: Self.checkedURL) }
            section.read("url_env") { value in
                let findings = value.findings
                let parsedURL = value.parsed { variable throws(InvalidConfigurationValue) in
                    findings.variables.insert(variable)
                    guard findings.readsSecrets else { return Self.unreadURL }
                    guard let url = environment[variable], !url.isEmpty else {
                        throw InvalidConfigurationValue(
                            "the name of an environment variable that is set and holds the URL")
                    }
                    return try Self.checkedURL(url)
                }
                if let parsedURL { url = parsedURL }
            }
            section.readOptional("tls", into: &tls) { RedisTLSSettings(reading: $0) }
            readSentinels(section)
            readCluster(section)
            section.readOptional("password_file", into: &passwordFile) { $0.parsed { $0 } }
            section.readOptional("sentinel_password_file", into: &sentinelPasswordFile) { $0.parsed { $0 } }
            section.read("embedded", into: &isExplicitlyEmbedded) { $0.flag() }
            section.read("urls") { urls = Self.quorum($0) }
            section.read("prefix", into: &prefix) {
                $0.parsed { ResourceName.expectedPrefix(insteadOf: $0, isEmptyAllowed: false) }
            }
            section.read("timeout", into: &timeout) { $0.duration(in: InterlockConfiguration.timeoutRange) }
            if url != nil, isExplicitlyEmbedded {
                let otherKey = ["url", "url_env", "sentinels", "cluster"].first {
                    section.value($0).map { !$0.isNull } ?? false
                }
                section.read("embedded") {
                    $0.reject("true conflicts with redis.\(otherKey ?? "url"); remove one of them")
                }
            }
            section.reject(["nodes"], "unknown key; use redis.cluster")
            section.reject(["sentinel"], "unknown key; use redis.sentinels")
        }
    }

    /// Reads `redis.sentinels` and `redis.primary`, which must be set together and replace `redis.url`.
    private mutating func readSentinels(_ section: ConfigurationSection) {
        var hosts: [String] = []
        var hasSentinels = false
        section.read("sentinels") { value in
            guard !value.isNull else { return }
            hasSentinels = true
            hosts = value.list().compactMap { $0.parsed(by: Self.checkedSentinel) }
            if !(1...SentinelSettings.maximumCount).contains(hosts.count) || Set(hosts).count < hosts.count {
                value.reject("expected 1-\(SentinelSettings.maximumCount) different Sentinels")
            }
            if url != nil { value.reject("conflicts with redis.url or redis.url_env; keep one") }
        }
        let name: String? = section.value("primary").flatMap { $0.isNull ? nil : $0.parsed(by: Self.checkedPrimary) }
        switch (hosts.isEmpty, name) {
        case (false, let name?): url = "\(tls == nil ? "redis" : "rediss")+sentinel://\(hosts.joined(separator: ","))/\(name)"
        case (false, nil): section.mapping.reject("sentinels requires the key primary: the primary's name")
        case (true, _?) where !hasSentinels:
            section.mapping.reject("primary requires the key sentinels: their addresses as host[:port]")
        case (true, _): break
        }
    }

    /// Reads `redis.cluster`, which replaces `redis.url`.
    private mutating func readCluster(_ section: ConfigurationSection) {
        section.read("cluster") { value in
            guard !value.isNull else { return }
            let hosts = value.list().compactMap { $0.parsed(by: Self.checkedSeed) }
            if !(1...ClusterSettings.maximumCount).contains(hosts.count) || Set(hosts).count < hosts.count {
                value.reject("expected 1-\(ClusterSettings.maximumCount) different servers")
            }
            if url != nil {
                value.reject("conflicts with redis.url, redis.url_env or redis.sentinels; keep one")
            } else {
                url = "\(tls == nil ? "redis" : "rediss")+cluster://\(hosts.joined(separator: ","))"
            }
        }
    }

    private static func checkedSeed(_ server: String) throws(InvalidConfigurationValue) -> String {
        do throws(RedisURLError) {
            return try ClusterSettings.seed(server).description
        } catch {
            throw InvalidConfigurationValue(
                "a cluster server as host[:port], such as redis-1:\(ClusterSettings.standardPort)")
        }
    }

    private static func checkedSentinel(_ sentinel: String) throws(InvalidConfigurationValue) -> String {
        do throws(RedisURLError) {
            return try SentinelSettings.sentinel(sentinel).description
        } catch {
            throw InvalidConfigurationValue("a Sentinel as host[:port], such as sentinel-1:\(SentinelSettings.standardPort)")
        }
    }

    private static func checkedPrimary(_ name: String) throws(InvalidConfigurationValue) -> String {
        guard SentinelSettings.isName(name) else {
            throw InvalidConfigurationValue(
                "the primary's name: 1-255 letters, digits, dots, dashes and underscores")
        }
        return name
    }

    /// The placeholder for a URL that is not read.
    static let unreadURL = "redis://unread"
    /// The supported schemes.
    private static let schemes = [
        "redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://", "redis+cluster://", "rediss+cluster://",
    ]

    /// Checks that a URL can be used, except for a password that may be in a file.
    static func checkedURL(_ url: String) throws(InvalidConfigurationValue) -> String {
        guard let scheme = schemes.first(where: { url.lowercased().hasPrefix($0) }), url.count > scheme.count else {
            throw InvalidConfigurationValue(
                "a URL that begins with \(ConfigurationText.alternatives(schemes)) (others are not supported)")
        }
        guard !url.contains("${") else {
            throw InvalidConfigurationValue(
                "a URL without ${ (variables in URLs are not expanded; use redis.url_env or redis.password_file)")
        }
        guard !url.unicodeScalars.contains(where: ConfigurationText.isSpaceOrControl) else {
            throw InvalidConfigurationValue("a URL without spaces or control characters")
        }
        do throws(RedisURLError) {
            // The password may be in a file, so it is not required here.
            _ = try RedisConfiguration(url: url, requiresPassword: false)
        } catch {
            let encode = error.reason.contains("percent-encode ") ? "" : "percent-encode @ : / ? # % in the password, "
            let remedy = url.contains("@") ? "; \(encode)or use redis.password_file" : ""
            throw InvalidConfigurationValue("a valid Redis URL (\(error.reason)\(remedy))")
        }
        return url
    }
}

/// `redis.tls`: the TLS settings for every server and Sentinel.
package struct RedisTLSSettings: Sendable, Equatable {
    /// `redis.tls.ca`: a PEM file of the authorities that may sign a server's certificate; `nil` for those of this
    /// host.
    var authorities: String?
    /// `redis.tls.cert`: a PEM file of the sidecar's own certificate; set together with `redis.tls.key`.
    var certificate: String?
    /// `redis.tls.key`: a PEM file of the private key of that certificate.
    var key: String?
    /// `redis.tls.server_name`: the name for which certificates must be valid; `nil` for the name of each server's
    /// host.
    var serverName: String?

    /// Returns `nil` if a setting is invalid.
    init?(reading value: ConfigurationValue) {
        value.section { section in
            section.readOptional("ca", into: &authorities, TLSSettings.file)
            section.readOptional("cert", into: &certificate, TLSSettings.file)
            section.readOptional("key", into: &key, TLSSettings.file)
            section.readOptional("server_name", into: &serverName) { $0.parsed(by: Self.checkedName) }
        }
        guard (certificate == nil) == (key == nil) else {
            value.reject("expected both cert and key, or neither")
            return nil
        }
        guard value.findings.readsSecrets else { return }
        do throws(SidecarError) {
            _ = try clientConfiguration()
        } catch {
            value.reject(error.description)
            return nil
        }
    }

    private static func checkedName(_ name: String) throws(InvalidConfigurationValue) -> String {
        guard SocketEndpoint.isHostName(name), (try? SocketAddress(ipAddress: name, port: 0)) == nil else {
            throw InvalidConfigurationValue("a host name, such as redis.internal")
        }
        return name
    }

    /// Applies the TLS settings to a server.
    /// - Throws: `SidecarError` if a file cannot be used.
    func apply(to server: inout RedisConfiguration) throws(SidecarError) {
        server.tls = try clientConfiguration()
        server.serverName = serverName
    }

    /// Creates the TLS configuration of a client.
    /// - Throws: `SidecarError` if a file cannot be used.
    func clientConfiguration() throws(SidecarError) -> TLSConfiguration {
        var tls = RedisConfiguration.standardTLS
        do {
            if let authorities { tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMFile(authorities)) }
            if let certificate { tls.certificateChain = try NIOSSLCertificate.fromPEMFile(certificate).map { .certificate($0) } }
            if let key { tls.privateKey = .privateKey(try NIOSSLPrivateKey(file: key, format: .pem)) }
            _ = try NIOSSLContext(configuration: tls)
        } catch {
            throw SidecarError("expected PEM certificates in ca and cert, and the unencrypted private key of cert in key")
        }
        return tls
    }
}

extension RedisSettings {
    /// Removes the references to files, for a check on a host that does not have them.
    mutating func removeFileReferences() {
        tls = nil
        guard passwordFile != nil || sentinelPasswordFile != nil else { return }
        (passwordFile, sentinelPasswordFile) = (nil, nil)
        // A user name in the URL would be invalid without the password from the file.
        url = Self.unreadURL
    }

    /// Returns the configuration of the server that `url` names, with the other settings applied.
    /// - Throws: `SidecarError` if the URL or a file cannot be used.
    package func server(_ url: String) throws(SidecarError) -> RedisConfiguration {
        var server: RedisConfiguration
        do throws(RedisURLError) {
            server = try RedisConfiguration(url: url, requiresPassword: false)
        } catch {
            throw SidecarError("redis.url: \(error)")
        }
        if let passwordFile { server.password = try Self.password(in: passwordFile, "redis.password_file") }
        if case .primary(var sentinels) = server.address, let sentinelPasswordFile {
            sentinels.password = try Self.password(in: sentinelPasswordFile, "redis.sentinel_password_file")
            server.address = .primary(of: sentinels)
        }
        do throws(RedisURLError) {
            try server.checkLogins()
        } catch {
            throw SidecarError("redis.url: \(error)")
        }
        if let tls { try tls.apply(to: &server) }
        server.commandTimeout = timeout
        server.connectTimeout = timeout
        return server
    }

    private static func password(in file: String, _ key: String) throws(SidecarError) -> String {
        do throws(SecretFile.Problem) {
            return try SecretFile(path: file).secret()
        } catch {
            throw SidecarError("\(key) \(file): \(error)")
        }
    }
}
