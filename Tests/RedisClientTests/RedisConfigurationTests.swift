import NIOSSL
import RedisClient
import Testing

@Suite("Redis URLs")
struct RedisConfigurationTests {
    struct Reading: Sendable, CustomTestStringConvertible {
        var url: String
        var address: RedisConfiguration.Address
        var username: String?
        var password: String?
        var database = 0
        var isTLS = false

        var testDescription: String { url }
    }

    static let readings = [
        Reading(url: "redis://cache", address: .host("cache", port: 6379)),
        Reading(url: "redis://cache/", address: .host("cache", port: 6379)),
        Reading(url: "REDIS://cache:7000", address: .host("cache", port: 7000)),
        Reading(url: "redis://127.0.0.1:1/15", address: .host("127.0.0.1", port: 1), database: 15),
        Reading(url: "redis://[::1]:6380/2", address: .host("::1", port: 6380), database: 2),
        Reading(url: "redis://:secret@cache", address: .host("cache", port: 6379), password: "secret"),
        Reading(url: "redis://me:secret@cache:65535", address: .host("cache", port: 65535), username: "me", password: "secret"),
        Reading(url: "redis://me:a%40b%3Ac%2F@cache", address: .host("cache", port: 6379), username: "me", password: "a@b:c/"),
        Reading(url: "rediss://cache:6380", address: .host("cache", port: 6380), isTLS: true),
        Reading(url: "unix:///run/redis.sock", address: .unixSocket(path: "/run/redis.sock")),
        Reading(url: "unix:///run/redis.sock?db=3", address: .unixSocket(path: "/run/redis.sock"), database: 3),
        Reading(
            url: "unix://me:secret@/run/redis.sock", address: .unixSocket(path: "/run/redis.sock"), username: "me",
            password: "secret"),
        Reading(url: "unix:///run/my%20redis.sock", address: .unixSocket(path: "/run/my redis.sock")),
        Reading(
            url: "redis+sentinel://s1/main",
            address: .primary(of: SentinelSettings(sentinels: [.host("s1", port: 26379)], primary: "main"))),
        Reading(
            url: "rediss+sentinel://me:a%40b@s1,[::1]:7000,s3:7001/my-main/2?sentinel_password=c%40d",
            address: .primary(of: sentinels), username: "me", password: "a@b", database: 2, isTLS: true),
    ]

    private static var sentinels: SentinelSettings {
        var settings = SentinelSettings(
            sentinels: [.host("s1", port: 26379), .host("::1", port: 7000), .host("s3", port: 7001)], primary: "my-main")
        settings.password = "c@d"
        return settings
    }

    @Test("A valid URL is parsed", arguments: readings)
    func validURLIsParsed(reading: Reading) throws {
        let configuration = try RedisConfiguration(url: reading.url)
        #expect(configuration.address == reading.address)
        #expect(configuration.username == reading.username)
        #expect(configuration.password == reading.password)
        #expect(configuration.database == reading.database)
        #expect((configuration.tls != nil) == reading.isTLS)
        #expect(configuration.tls.map { $0.minimumTLSVersion == .tlsv12 } ?? true)
    }

    @Test(
        "An invalid URL is rejected",
        arguments: [
            "", "cache", "cache:6379", "://", "http://cache", "redis://", "redis:///1", "redis://cache:0", "redis://cache:65536",
            "redis://cache:port", "redis://cache/one", "redis://cache/-1", "redis://cache/0/1", "redis://cache?db=1",
            "redis://me@cache", "unix://", "unix:///", "unix://run/redis.sock", "unix:///run/redis.sock?database=1",
            "unix:///run/redis.sock?db=x", "unix:///run/redis.sock?db=-1", "redis+sentinel://", "redis+sentinel://s1",
            "redis+sentinel://s1/", "redis+sentinel:///main",
            "redis+sentinel://s1,/main", "redis+sentinel://s1,s1/main", "redis+sentinel://s1:0/main",
            "redis+sentinel://s1/main/x",
            "redis+sentinel://s1/main/0/1", "redis+sentinel://me@s1/main", "redis+sentinel://s1/my%20main",
            "redis+sentinel://s1/main?db=1", "redis+sentinel://s1/main?sentinel_username=me", "redis+sentinel://s1/main#x",
            "redis://cache#x", "redis://:p@ss#1@cache:6379", "unix:///run/redis.sock#x",
        ]
    )
    func invalidURLIsRejected(url: String) {
        #expect(throws: RedisURLError.self) { try RedisConfiguration(url: url) }
    }

    @Test(
        "The reason never contains the password",
        arguments: [
            "redis://me:hunter2@cache/x", "http://me:hunter2@cache", "redis+sentinel://me:hunter2@s1",
            "redis+sentinel://me:hunter2/x@s1/main", "redis://me:98765/abc@cache:6379", "redis+sentinel://me:98765?x@s1/main",
        ])
    func reasonNeverContainsPassword(url: String) throws {
        let error = try #require(throws: RedisURLError.self) { try RedisConfiguration(url: url) }
        #expect(!error.description.contains("hunter2") && !error.description.contains("98765"))
    }

    @Test(
        "The name for messages has no credentials",
        arguments: [
            ("redis://me:hunter2@cache:7000/2", "redis://cache:7000/2"), ("rediss://[::1]", "rediss://[::1]:6379/0"),
            ("unix://:hunter2@/run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
            (
                "redis+sentinel://:hunter2@s1,[::1]:7/main?sentinel_password=hunter3", "redis+sentinel://s1:26379,[::1]:7/main/0"
            ),
        ]
    )
    func displayName(url: String, name: String) throws {
        #expect(try RedisConfiguration(url: url).displayName == name)
    }
}
