import InterlockCore
import InterlockHTTP

extension TracingSettings {
    private static let percentageRange: ClosedRange<Double> = 0...100

    /// Returns `nil` and reports a mistake if the settings cannot be used.
    init?(reading value: ConfigurationValue) {
        var settings = TracingSettings(endpoint: "")
        value.section(shorthand: "endpoint") { section in
            let endpoint: String? = section.required("endpoint", "the collector's URL, such as http://127.0.0.1:4318") {
                $0.parsed(by: UpstreamSettings.checkedURL)
            }
            settings.endpoint = endpoint ?? ""
            section.readOptional("ca", into: &settings.certificateAuthority, TLSSettings.authorities)
            if settings.certificateAuthority != nil, settings.endpoint.lowercased().hasPrefix("http://") {
                section.reject(["ca"], "requires an endpoint that begins with https://")
            }
            section.read("headers") { headers in
                settings.headers = headers.concealed().list().compactMap { Header(reading: $0.concealed()) }
            }
            section.read("sample", into: &settings.samplingRate) { $0.percentage(in: Self.percentageRange) }
            section.read("follow_parents", into: &settings.followsParents) { $0.flag() }
        }
        guard !settings.endpoint.isEmpty else { return nil }
        if value.findings.readsSecrets {
            settings.certificateAuthorityDigest = TLSSettings.digest(ofFile: settings.certificateAuthority)
        }
        self = settings
    }
}

extension TracingSettings.Header {
    /// The header fields that the exporter sets itself.
    private static let reserved: Set<String> = [
        "host", "content-type", "content-length", "connection", "transfer-encoding", "user-agent", "upgrade", "te", "trailer",
    ]

    /// Returns `nil` and reports a mistake if the header field cannot be used.
    fileprivate init?(reading item: ConfigurationValue) {
        var name: String?
        var value: String?
        item.section { section in
            name = section.required("name", "the name of a header field") { $0.parsed(by: Self.checkedName) }
            value = Self.value(in: section)
        }
        guard let name, let value else { return nil }
        self.init(name: name, value: value)
    }

    /// Returns the value that `value_file` or `value` specifies, and reports mistakes.
    private static func value(in section: ConfigurationSection) -> String? {
        let file = section.value("value_file")?.concealed()
        let literal = section.value("value")?.concealed()
        switch (file, literal) {
        case (let file?, nil):
            guard section.mapping.findings.readsSecrets else { return file.parsed(by: { $0 }) }
            return SecretFile.secret(namedBy: file, checkedBy: checkedValue)
        case (nil, let literal?): return literal.parsed(by: checkedValue)
        default:
            section.mapping.reject("expected either value_file (a file that holds the value) or value")
            return nil
        }
    }

    private static func checkedName(_ name: String) throws(InvalidConfigurationValue) -> String {
        guard HTTPToken.isValid(name) else {
            throw InvalidConfigurationValue("the name of a header field, such as Authorization")
        }
        guard !reserved.contains(name.lowercased()) else {
            throw InvalidConfigurationValue("a header field that the exporter does not set itself")
        }
        return name
    }

    private static func checkedValue(_ value: String) throws(InvalidConfigurationValue) -> String {
        let isPrintable = !value.isEmpty && value.utf8.allSatisfy { (0x20...0x7E).contains($0) }
        guard isPrintable, value.first != " ", value.last != " " else {
            throw InvalidConfigurationValue("printable ASCII without leading or trailing spaces")
        }
        return value
    }
}
