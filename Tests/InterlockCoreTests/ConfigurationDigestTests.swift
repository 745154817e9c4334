import InterlockCore
import Testing

@Suite("The digest of a definition")
struct ConfigurationDigestTests {
    @Test("The digests of definitions with every setting never change")
    func digestsOfEverything() {
        #expect(ServiceDefinition.withEverything.digest == "98d675f316aedff0")
        #expect(ServiceDefinition.withOtherCases.digest == "cc7ebc2a06ff9bad")
        #expect(RateLimitDomain.withEverything.digest == "aa0bf4d1d099f254")
    }

    @Test("The definitions with every setting leave no setting at its default")
    func noDefaults() {
        let service = ServiceDefinition.withEverything
        let upstream = service.upstream?.digestedLines() ?? []
        let rule = RateLimitDomain.withEverything.rules[0].rules[0]
        #expect(ServiceDefinition(name: "").digestedLines().filter(service.digestedLines().contains) == [])
        #expect(UpstreamSettings(url: "").digestedLines().filter(upstream.contains) == [])
        #expect(RateLimitDomain(name: "").digestedLines().filter(RateLimitDomain.withEverything.digestedLines().contains) == [])
        #expect(DescriptorRule(key: "").digestedLines().filter(rule.digestedLines().contains) == [])
    }

    @Test(
        "Every stored property of a service is written, in order",
        arguments: [ServiceDefinition(name: "catalog"), .withEverything, .withOtherCases])
    func propertiesOfService(service: ServiceDefinition) {
        let mirrored = mirroredLines(of: service, except: [".name", ".upstream.some.certificateAuthorityDigest"])
            .map { $0.replacing(".totalTimeout=Optional(30.0 seconds)", with: ".totalTimeout=30.0 seconds") }
            // The digest keeps the names that earlier versions wrote.
            .map { $0.replacing(".onLimit.maximumWait=", with: ".onLimit.patience=") }
            .map { $0.replacing(".breaker.honorsRetryAfter=", with: ".breaker.honoursRetryAfter=") }
        #expect(service.digestedLines() == mirrored)
    }

    @Test("Every stored property of a domain and its rules is written, in order")
    func propertiesOfDomain() {
        let domain = RateLimitDomain.withEverything
        #expect(domain.digestedLines() == mirroredLines(of: domain, except: [".name", ".rules"]))
        var rules = domain.rules
        while let rule = rules.popLast() {
            // The digest keeps the names that earlier versions wrote.
            let mirrored = mirroredLines(of: rule, except: [".rules"])
                .map { $0.replacing(".isShared=", with: ".sharesCount=") }
            #expect(rule.digestedLines() == mirrored)
            rules += rule.rules
        }
    }

    @Test("Equal definitions have equal digests, and different ones differ")
    func equalDefinitionsHaveEqualDigests() {
        let service = ServiceDefinition(name: "catalog", limits: [LimitDefinition(name: "1s", limit: 10, window: .seconds(1))])
        var other = service
        other.limits[0].limit = 11
        var slower = service
        slower.breaker.openFor = .seconds(6) ... .seconds(60)
        #expect(service.digest == ServiceDefinition(name: "catalog", limits: service.limits).digest)
        #expect(Set([service.digest, other.digest, slower.digest]).count == 3)
        #expect(service.digest.utf8.count == 16)
    }

    @Test("Unused settings of later versions do not change the digest, so that two versions agree on one file")
    func digestAcrossVersions() {
        var service = ServiceDefinition(
            name: "catalog",
            limits: [
                LimitDefinition(name: "1s", limit: 10, window: .seconds(1)),
                LimitDefinition(
                    name: "1m-subject", limit: 5, window: .seconds(60), algorithm: .gcra(burst: 4), isPerSubject: true),
            ])
        // The digest that a sidecar without `requiresSubject` wrote to Redis.
        #expect(service.digest == "cc35b9f317c68573")
        service.limits[1].requiresSubject = true
        #expect(service.digest != "cc35b9f317c68573")
    }

    @Test("Upstream settings added by later versions do not change the digest while they have their defaults")
    func digestOfUpstream() {
        var service = ServiceDefinition(name: "catalog", upstream: UpstreamSettings(url: "http://127.0.0.1:9"))
        let before = service.digest
        // The digest that an earlier version computed.
        #expect(before == "bbbe4ceceedb3775")
        service.upstream?.certificateAuthorityDigest = [1, 2, 3]
        #expect(service.digest == before)
        service.upstream?.idleTimeout = .seconds(1)
        #expect(service.digest != before)
        service.upstream?.idleTimeout = .seconds(300)
        service.upstream?.connections.maximumAge = nil
        #expect(service.digest != before)
        service.upstream?.connections.maximumAge = .seconds(300)
        #expect(service.digest == before)
        service.upstream?.totalTimeout = nil
        #expect(service.digest != before)
    }

    @Test("A probe's digest equals the one computed by sidecars with regular expressions")
    func digestOfProbe() {
        let expectation = ProbeExpectation(
            statuses: StatusSet(200...204), headers: [.init(name: "X-State", value: "up")],
            body: [.contains("ok"), .json(path: "$.status", equals: "up")])
        let probe = ProbeSettings(
            target: .http("http://a.example/status"), interval: .seconds(2), timeout: .milliseconds(500),
            expectation: expectation, unhealthyAfter: 4, healthyAfter: 1, isFollowedByTrial: true, origin: .all)
        #expect(ServiceDefinition(name: "catalog", upstream: nil, probe: probe).digest == "03163abe5fd965b7")
        let connection = ProbeSettings(target: .tcp(host: "a.example", port: 5432))
        #expect(ServiceDefinition(name: "catalog", upstream: nil, probe: connection).digest == "7e0f063bda1a3a39")
    }

    @Test("A definition that states a default has the digest of one that omits it")
    func digestOfDefaults() {
        #expect(ServiceDefinition(name: "catalog").digest == "cbf29ce484222325")
    }
}

private func mirroredLines(of value: Any, except unwritten: [String]) -> [String] {
    mirroredLines(of: value, at: "").filter { line in
        !unwritten.contains { line.hasPrefix($0 + "=") || line.hasPrefix($0 + ".") }
    }
}

private func mirroredLines(of value: Any, at path: String) -> [String] {
    let children = Mirror(reflecting: value).children
    guard !children.isEmpty, !(value is Duration) else { return ["\(path)=\(value)"] }
    return children.enumerated().flatMap { index, child in
        mirroredLines(of: child.value, at: "\(path).\(child.label ?? "\(index)")")
    }
}
