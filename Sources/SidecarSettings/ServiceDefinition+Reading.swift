import InterlockCore

extension ServiceDefinition {
    /// The time between the timeout of a proxied call and the expiry of its permit, so that the outcome can be
    /// reported.
    private static let reportingTime: Duration = .seconds(10)

    /// Reads `services`: a mapping from names to services, in the order of the file.
    static func list(_ value: ConfigurationValue) -> [ServiceDefinition] {
        var services: [ServiceDefinition] = []
        value.section { section in
            for entry in section.namedEntries() {
                if let expected = ResourceName.expectedPart(insteadOf: entry.name) {
                    let got = ConfigurationValue.quoted(entry.name)
                    entry.key.reject(InvalidConfigurationValue(expected).message(got: got))
                }
                if entry.value.isNull {
                    entry.value.findings.warn("\(entry.value.path) is empty; set its url or limits, or write {} for the defaults")
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
            upstream = UpstreamSettings(reading: section)
            if let upstream {
                let maximumLifetime = Self.permitLifetimeRange.upperBound
                let callTimeout = upstream.totalTimeout ?? upstream.firstByteTimeout
                permitLifetime = min(maximumLifetime, max(permitLifetime, callTimeout + Self.reportingTime))
            }
            section.read("limits") { limits = LimitDefinition.list($0) }
            section.read("on_limit") { onLimit.read($0) }
            section.read("when_redis_is_down", into: &whenRedisIsDown) { $0.parsed(by: OutagePolicy.init(parsing:)) }
            section.read("breaker") { breaker.read($0) }
            section.read("permit_ttl") { value in
                guard let lifetime = value.duration(in: Self.permitLifetimeRange) else { return }
                permitLifetime = lifetime
                guard let totalTimeout = upstream?.totalTimeout, lifetime < totalTimeout else { return }
                value.findings.warn(
                    "\(value.path) is shorter than timeouts.total: a call that takes longer frees its slot before it ends, and its outcome is lost"
                )
            }
            section.readOptional("concurrency", into: &concurrency) { $0.wholeNumber(in: Self.slotCountRange) }
            section.read("max_subjects", into: &maximumSubjects) { $0.wholeNumber(in: Self.subjectCountRange) }
            section.read("probe") { value in
                guard !value.isNull, let settings = ProbeSettings(reading: value) else { return }
                probe = settings
                let isURLRejected = value.findings.hasProblem(under: section.mapping.path + ".url")
                if settings.needsServiceURL, upstream == nil, !isURLRejected {
                    value.reject("path is relative to the service's url, which is not set; set it, or replace path with url")
                }
                if settings.origin == .one, ProbeLock.name(ofService: name) == nil {
                    value.reject(
                        "from: one requires a service name of at most \(ProbeLock.maximumServiceBytes) bytes; shorten the name, "
                            + "or set from: all")
                }
            }
        }
    }
}
