import FoundationEssentials
import Interlock
import InterlockCore
import SidecarSettings
import Testing

@testable import Simulation

/// A sidecar with an imported configuration, and a Redis server whose clock the test controls.
private struct Reference {
    private static func settings(importing yaml: String) throws -> DomainSettings {
        let file = FileManager.default.temporaryDirectory.appending(path: "reference-\(UInt64.random(in: .min ... .max)).yaml")
        try Data(yaml.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        var settings = try SidecarConfiguration.load(
            yaml: "rls: { import: \"\(file.path())\" }", fileName: "interlock.yaml"
        ).domains
        // Allow for the delay of a millisecond to the simulated Redis.
        settings.timeout = .seconds(1)
        return settings
    }

    let stage: Stage
    let domain: String

    init(_ yaml: String) throws {
        let settings = try Self.settings(importing: yaml)
        domain = settings.definitions[0].name
        stage = Stage(domains: settings)
    }

    /// Waits until this many milliseconds after a unit has begun by the Redis clock.
    func begin(unit seconds: Int64, after milliseconds: Int64 = 10) throws {
        // The reply in RESP: `*2 $10 SECONDS $6 MICROSECONDS`.
        let words = stage.cli("TIME").split(separator: " ")
        let now = try #require(Int64(words[2])) * 1000 + #require(Int64(words[4])) / 1000
        stage.run(milliseconds: seconds * 1000 - now % (seconds * 1000) + milliseconds)
    }

    /// Returns whether the request is over a limit. Each descriptor has the form `key=value,key=value`.
    func isOver(_ descriptors: String..., hits: Int64 = 1) throws -> Bool {
        try #require(answer(descriptors, hits: hits)).isOverLimit
    }

    func answer(_ descriptors: [String], hits: Int64 = 1) -> RequestDecision? {
        let requested = descriptors.map { text in
            RequestedDescriptor(
                entries: text.split(separator: ",").map { entry in
                    let sides = entry.split(separator: "=", maxSplits: 1)
                    return DescriptorEntry(key: String(sides[0]), value: String(sides[1]))
                }, cost: hits)
        }
        let decision: DescriptorResult? = stage.result(
            of: stage.startCall(0) { [domain] coordinator, completion in
                _ = coordinator.decide(domain, requested, completion: completion)
                return nil
            })
        guard case .decided(let answer)? = decision else { return nil }
        return answer
    }

    /// Sends `count` requests. Returns how many of them pass.
    func passCount(_ count: Int, _ descriptors: String...) -> Int {
        (0..<count).count { _ in answer(descriptors)?.isOverLimit == false }
    }
}

/// Compares the decision on each request with the documentation of envoyproxy/ratelimit. Only the test advances the
/// clock.
@Suite("Imported configurations decide as the reference implementation documents", .timeLimit(.minutes(2)))
struct ReferenceLimitTests {
    @Test("Example 1: two values of one key have a limit each")
    func values() throws {
        let reference = try Reference(
            """
            domain: mongo_cps
            descriptors:
              - { key: database, value: users, rate_limit: { unit: second, requests_per_unit: 5 } }
              - { key: database, value: default, rate_limit: { unit: second, requests_per_unit: 5 } }
            """)
        try reference.begin(unit: 1)
        #expect(reference.passCount(7, "database=users") == 5)
        #expect(reference.passCount(7, "database=default") == 5)
        #expect(reference.passCount(7, "database=other") == 7)
        try reference.begin(unit: 1)
        #expect(reference.passCount(7, "database=users") == 5)
    }

    @Test("Example 2: nested descriptors and several descriptors in one request each count separately")
    func nested() throws {
        let reference = try Reference(
            """
            domain: messaging
            descriptors:
              - key: message_type
                value: marketing
                descriptors:
                  - { key: to_number, rate_limit: { unit: day, requests_per_unit: 5 } }
              - { key: to_number, rate_limit: { unit: day, requests_per_unit: 10 } }
            """)
        try reference.begin(unit: 86_400)
        #expect(reference.passCount(8, "message_type=marketing,to_number=1", "to_number=1") == 5)
        // A request that the first rule refused still counted against the second, so two of ten are left.
        #expect(reference.passCount(8, "to_number=1") == 2)
        #expect(reference.passCount(8, "message_type=marketing,to_number=2") == 5)
        #expect(reference.passCount(20, "message_type=marketing") == 20)
    }

    @Test("Example 3: a value takes precedence over its key, and a limit of 0 blocks every request")
    func example3ValueTakesPrecedenceOverKey() throws {
        let reference = try Reference(
            """
            domain: edge_proxy_per_ip
            descriptors:
              - { key: remote_address, rate_limit: { unit: second, requests_per_unit: 10 } }
              - { key: remote_address, value: 50.0.0.5, rate_limit: { unit: second, requests_per_unit: 0 } }
            """)
        try reference.begin(unit: 1)
        #expect(reference.passCount(12, "remote_address=50.0.0.1") == 10)
        #expect(reference.passCount(3, "remote_address=50.0.0.5") == 0)
    }

    @Test("Example 4: a descriptor matches a rule of its own depth")
    func example4DescriptorMatchesRuleOfItsDepth() throws {
        let flat = try Reference(
            """
            domain: example4
            descriptors: [{ key: key, value: value, rate_limit: { requests_per_unit: 3, unit: second } }]
            """)
        try flat.begin(unit: 1)
        #expect(flat.passCount(5, "key=value,subkey=subvalue") == 5)
        #expect(flat.passCount(5, "key=value") == 3)
    }

    @Test("Example 5: unlimited descriptors are distinguished from those without a rule")
    func unlimited() throws {
        let reference = try Reference(
            """
            domain: internal
            descriptors:
              - { key: ldap, rate_limit: { unlimited: true } }
              - { key: azure, rate_limit: { unit: minute, requests_per_unit: 3 } }
            """)
        try reference.begin(unit: 60)
        #expect(reference.answer(["ldap=a", "other=a"])?.statuses.map(\.bound) == [.unlimited, .none])
        #expect(reference.passCount(5, "azure=a") == 3)
        // Windows begin on the minute. The first one still runs after 50 seconds, and the next one begins 10 seconds
        // later.
        reference.stage.run(milliseconds: 50_000)
        #expect(reference.passCount(2, "azure=a") == 0)
        reference.stage.run(milliseconds: 10_000)
        #expect(reference.passCount(5, "azure=a") == 3)
    }

    @Test("Example 6: a rule in shadow mode refuses nothing, and its neighbor does")
    func example6RuleInShadowModeRefusesNothing() throws {
        let reference = try Reference(
            """
            domain: example6
            descriptors:
              - key: service
                descriptors:
                  - { key: user, value: user-a, shadow_mode: true, rate_limit: { requests_per_unit: 1, unit: second } }
                  - { key: user, value: user-b, rate_limit: { requests_per_unit: 2, unit: second } }
            """)
        try reference.begin(unit: 1)
        #expect(reference.passCount(4, "service=auth-service,user=user-a") == 4)
        #expect(reference.answer(["service=auth-service,user=user-a"])?.statuses[0].isShadowRefusal == true)
        #expect(reference.passCount(4, "service=auth-service,user=user-b") == 2)
    }

    @Test("Example 7: a rule that replaces another leaves its count unchanged")
    func example7RuleThatReplacesAnotherLeavesCountUnchanged() throws {
        let reference = try Reference(
            """
            domain: example7
            descriptors:
              - key: key_1
                value: value_1
                descriptors:
                  - { key: user, value: bkthomps, rate_limit: { name: specific_limit, requests_per_unit: 5, unit: second } }
              - key: key_2
                value: value_2
                descriptors:
                  - key: user
                    value: bkthomps
                    rate_limit: { replaces: [{ name: specific_limit }], requests_per_unit: 10, unit: second }
            """)
        try reference.begin(unit: 1)
        #expect(reference.passCount(12, "key_1=value_1,user=bkthomps", "key_2=value_2,user=bkthomps") == 10)
        #expect(reference.passCount(7, "key_1=value_1,user=bkthomps") == 5)
    }

    @Test("Example 8: a value that is not listed counts separately, and its metrics show it")
    func detailedMetrics() throws {
        let reference = try Reference(
            """
            domain: example8
            descriptors:
              - { key: key1, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 10 } }
              - { key: key1, value: value1, rate_limit: { unit: minute, requests_per_unit: 20 } }
            """)
        try reference.begin(unit: 60)
        #expect(reference.passCount(12, "key1=unspecified_value") == 10)
        #expect(reference.passCount(12, "key1=unspecified_value2") == 10)
        #expect(reference.passCount(22, "key1=value1") == 20)
    }

    @Test("Example 9: wildcards match parts of values, and each value counts separately")
    func example9WildcardsMatchPartsOfValues() throws {
        let reference = try Reference(
            """
            domain: example9
            descriptors:
              - { key: key1, value: value*, rate_limit: { unit: minute, requests_per_unit: 2 } }
              - { key: path, value: /api/*/action, rate_limit: { unit: minute, requests_per_unit: 2 } }
            """)
        try reference.begin(unit: 60)
        #expect(reference.passCount(3, "key1=value1") == 2)
        #expect(reference.passCount(3, "key1=valueXYZ") == 2)
        #expect(reference.passCount(3, "path=/api/123/action") == 2)
        #expect(reference.passCount(3, "path=/api/123/other") == 3)
    }

    @Test("Example 10: values above a rule count separately, regardless of metrics")
    func valuesToMetrics() throws {
        let reference = try Reference(
            """
            domain: example10
            descriptors:
              - key: route
                value_to_metric: true
                descriptors:
                  - key: http_method
                    value_to_metric: true
                    descriptors:
                      - { key: subject_id, rate_limit: { unit: minute, requests_per_unit: 60 } }
              - key: user
                value_to_metric: true
                descriptors:
                  - key: action
                    value: read*
                    value_to_metric: true
                    descriptors:
                      - { key: resource, rate_limit: { unit: minute, requests_per_unit: 5 } }
            """)
        try reference.begin(unit: 60)
        #expect(reference.passCount(62, "route=api,http_method=GET,subject_id=123") == 60)
        for other in ["route=web,http_method=GET", "route=api,http_method=POST"] {
            #expect(reference.passCount(2, "\(other),subject_id=123") == 2)
        }
        #expect(reference.passCount(2, "route=api,http_method=GET,subject_id=456") == 2)
        #expect(reference.passCount(7, "user=alice,action=readfile,resource=documents") == 5)
        #expect(reference.passCount(7, "user=alice,action=readall,resource=documents") == 5)
        #expect(reference.passCount(7, "user=alice,action=write,resource=documents") == 7)
        try reference.begin(unit: 60)
        #expect(reference.passCount(2, "route=api,http_method=GET,subject_id=123") == 2)
    }

    @Test("Example 11: values that share a threshold count together, even those above a rule")
    func sharedThresholds() throws {
        let reference = try Reference(
            """
            domain: example11
            descriptors:
              - { key: files, value: files/*, share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 10 } }
              - { key: files_no_share, value: files_no_share/*, share_threshold: false, rate_limit: { unit: hour, requests_per_unit: 10 } }
              - key: route
                value: api/*
                share_threshold: true
                value_to_metric: true
                descriptors:
                  - { key: method, rate_limit: { unit: minute, requests_per_unit: 6 } }
            """)
        try reference.begin(unit: 3600)
        #expect(reference.passCount(5, "files=files/a.pdf") == 5)
        #expect(reference.passCount(5, "files=files/b.csv") == 5)
        #expect(reference.passCount(2, "files=files/c.txt") == 0)
        #expect(reference.passCount(12, "files_no_share=files_no_share/a.pdf") == 10)
        #expect(reference.passCount(12, "files_no_share=files_no_share/b.csv") == 10)
        #expect(reference.passCount(4, "route=api/v1,method=GET") == 4)
        #expect(reference.passCount(4, "route=api/v2,method=GET") == 2)
        #expect(reference.passCount(4, "route=api/v2,method=POST") == 4)
        try reference.begin(unit: 3600)
        #expect(reference.passCount(12, "files=files/c.txt") == 10)
    }

    @Test("Refused hits count, so a later request with fewer hits is refused too; a request with 0 hits only inspects")
    func refusedHitsStillCount() throws {
        let reference = try Reference(
            """
            domain: hits
            descriptors: [{ key: a, rate_limit: { unit: hour, requests_per_unit: 10 } }]
            """)
        try reference.begin(unit: 3600)
        #expect(try !reference.isOver("a=x", hits: 8))
        #expect(try !reference.isOver("a=x", hits: 0))
        #expect(try reference.isOver("a=x", hits: 3))
        #expect(try reference.isOver("a=x", hits: 1))
        #expect(try reference.isOver("a=x", hits: 0))
        #expect(
            reference.answer(["a=y"])?.statuses.map(\.resetAfterMilliseconds).first.map { (3_599_000...3_600_000).contains($0) }
                == true)
    }
}
