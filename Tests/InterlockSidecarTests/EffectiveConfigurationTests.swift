import FoundationEssentials
import InterlockCore
import Testing

@testable import SidecarSettings

@Suite("The effective configuration")
struct EffectiveConfigurationTests {
    private static let environment = ["INTERLOCK_OPS_KEY": "ops-secret", "K": "web-secret"]

    private static func file(_ path: String) throws -> String {
        let root = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
        return try String(decoding: Data(contentsOf: URL(filePath: "/\(root)/\(path)")), as: UTF8.self)
    }

    @Test(
        "The printed configuration means the same when read again, except for secrets",
        arguments: [
            "docs/sample.yaml", "Tests/Fuzzing/Corpus/configuration/all-sections",
            "Tests/Fuzzing/Corpus/configuration/sample",
        ])
    func roundTrip(path: String) throws {
        let original = try SidecarConfiguration.load(yaml: Self.file(path), fileName: "file", environment: Self.environment)
        let effective = try EffectiveConfiguration(original)
        var roundTrip = try SidecarConfiguration.load(yaml: effective.yaml, fileName: "shown")
        #expect(roundTrip.keys.map(\.name) == original.keys.map(\.name))
        roundTrip.keys = original.keys
        roundTrip.warnings = original.warnings
        // If the file names no Redis, the effective configuration states explicitly that Redis is embedded.
        roundTrip.redis.isExplicitlyEmbedded = original.redis.isExplicitlyEmbedded
        #expect(roundTrip == original)
        #expect(effective.digest.services.count == original.services.count)
    }

    @Test("Ambiguous YAML texts and every kind of setting survive a round trip")
    func awkward() throws {
        let yaml = """
            listen: { unix: /run/a.sock, unix_mode: 0660, unix_group: 0 }
            services:
              "null":
                url: "http://a.example"
                fallback: { status: 503, body: "yes: \\"no\\" # \\n\\ttab é", type: text/plain }
                limits: [ { limit: 5, per: 1s, per_subject: true, subject: required, algorithm: gcra, burst: 3, name: "1" } ]
                breaker: { window_calls: 100, failure_rate: 33.3%, ignore: [404, 400..403] }
                probe: { tcp: "[::1]:5432" }
              "*a'b":
                probe: { url: "http://a.example/x?y=1", expect: { headers: { X-A: "true" }, json: { $.a: "~" } } }
            """
        let original = try SidecarConfiguration.load(yaml: yaml, fileName: "file")
        let roundTrip = try SidecarConfiguration.load(yaml: EffectiveConfiguration(original).yaml, fileName: "shown")
        #expect(roundTrip.services == original.services)
        #expect(roundTrip.listen == original.listen)
        #expect(original.listen.unixMode?.bits == 0o660)
    }

    @Test(
        "The printed configuration reveals no secret and can be read again",
        arguments: [
            ("redis://user:hunter2@10.0.0.5:6379/3", "redis://:***@10.0.0.5:6379/3"),
            ("unix://:hunter2@/run/redis.sock?db=1", "unix://:***@/run/redis.sock?db=1"),
            ("redis://10.0.0.5", "redis://10.0.0.5"),
            (
                "rediss+sentinel://:hunter2@s1,s2:7/main/1?sentinel_username=u&sentinel_password=hunter3",
                "rediss+sentinel://:***@s1:26379,s2:7/main/1?sentinel_password=***"
            ),
        ])
    func secrets(url: String, expected: String) throws {
        let yaml = """
            redis: { url: "\(url)" }
            auth: { keys: [ { name: ops, key: hunter3, role: admin }, { name: web, key: hunter4, role: use } ] }
            """
        let effective = try EffectiveConfiguration(SidecarConfiguration.load(yaml: yaml, fileName: "file")).yaml
        #expect(try SidecarConfiguration.load(yaml: effective, fileName: "shown").keys.map(\.name) == ["ops", "web"])
        #expect(!effective.contains("hunter"))
        #expect(effective.contains(expected), "\(effective)")
        #expect(effective.contains("***"))
    }
}
