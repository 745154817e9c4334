import InterlockCore

extension ServiceDefinition {
    private static let permitLifetimes: ClosedRange<Duration> = .milliseconds(1) ... .seconds(86_400)
    private static let concurrencies = 1...1_000_000

    /// Reads `services`: a mapping from names to services, in the order of the file.
    static func list(_ value: ConfigurationValue) -> [ServiceDefinition] {
        var services: [ServiceDefinition] = []
        value.section { section in
            for entry in section.named() {
                do throws(ConfigurationExpectation) {
                    _ = try ConfigurationText.checkedName(entry.name)
                } catch {
                    entry.key.refuse(error.message(got: ConfigurationValue.quoted(entry.name)))
                }
                var service = ServiceDefinition(name: entry.name)
                service.read(entry.value)
                services.append(service)
            }
        }
        return services
    }

    private mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.read("url") { _ = $0.parsed(by: Self.checkedURL) }
            section.read("limits") { limits = LimitDefinition.list($0) }
            section.read("on_limit") { onLimit.read($0) }
            section.read("when_redis_is_down", into: &whenRedisIsDown) { $0.parsed(by: OutagePolicy.init(parsing:)) }
            section.read("breaker") { breaker.read($0) }
            section.read("permit_ttl", into: &permitLifetime) { $0.duration(in: Self.permitLifetimes) }
            section.read("concurrency") { value in
                guard !value.isNull, value.wholeNumber(in: Self.concurrencies) != nil else { return }
                value.warnNotCarriedOut()
            }
            section.read("probe") { value in
                guard !value.isNull else { return }
                ProbeRules.check(value)
                value.warnNotCarriedOut()
            }
        }
    }

    /// `url` is where the service lives: `http://` or `https://` with a host.
    private static func checkedURL(_ text: String) throws(ConfigurationExpectation) -> String {
        let expectation = ConfigurationExpectation("a URL that begins with http:// or https:// and names a host")
        let schemes = ["http://", "https://"]
        guard let scheme = schemes.first(where: { text.lowercased().hasPrefix($0) }),
            !text.unicodeScalars.contains(where: ConfigurationText.isSpaceOrControl)
        else { throw expectation }
        let authority = text.dropFirst(scheme.count).prefix { !"/?#".contains($0) }
        let hostAndPort = authority.split(separator: "@", omittingEmptySubsequences: false).last ?? ""
        let hasPort = hostAndPort.last != "]" && hostAndPort.contains(":")
        do {
            _ = try SocketEndpoint(parsing: hasPort ? String(hostAndPort) : "\(hostAndPort):0")
        } catch {
            throw expectation
        }
        return text
    }
}

extension ConfigurationValue {
    /// Notes that what stands here was understood and has no effect yet.
    func warnNotCarriedOut() {
        findings.warn("\(path) is not carried out by this version")
    }
}
