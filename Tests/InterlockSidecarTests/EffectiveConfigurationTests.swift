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
        let read = try SidecarConfiguration.load(yaml: Self.file(path), fileName: "file", environment: Self.environment)
        let shown = try EffectiveConfiguration(read)
        var again = try SidecarConfiguration.load(yaml: shown.yaml, fileName: "shown")
        #expect(again.keys.map(\.name) == read.keys.map(\.name))
        again.keys = read.keys
        again.warnings = read.warnings
        // If the file names no Redis, the effective configuration states explicitly that Redis is embedded.
        again.redis.isExplicitlyEmbedded = read.redis.isExplicitlyEmbedded
        #expect(again == read)
        #expect(shown.digest.services.count == read.services.count)
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
        let read = try SidecarConfiguration.load(yaml: yaml, fileName: "file")
        let again = try SidecarConfiguration.load(yaml: EffectiveConfiguration(read).yaml, fileName: "shown")
        #expect(again.services == read.services)
        #expect(again.listen == read.listen)
        #expect(read.listen.unixMode?.bits == 0o660)
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
        let shown = try EffectiveConfiguration(SidecarConfiguration.load(yaml: yaml, fileName: "file")).yaml
        #expect(try SidecarConfiguration.load(yaml: shown, fileName: "shown").keys.map(\.name) == ["ops", "web"])
        #expect(!shown.contains("hunter"))
        #expect(shown.contains(expected), "\(shown)")
        #expect(shown.contains("***"))
    }
}
