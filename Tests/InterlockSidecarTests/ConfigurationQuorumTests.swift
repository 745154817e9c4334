import Interlock
import InterlockSidecar
import SidecarSettings
import RedisClient
import Testing

@Suite("Configuration: locks on a quorum of servers")
struct ConfigurationQuorumTests {
    private let three = "\"redis://a\", \"redis://b\", \"rediss://:hunter2@c:6380/1\""

    @Test("The servers are read in order, in addition to the main Redis")
    func serversAreReadInOrder() throws {
        let settings = try configuration("redis: { url: \"redis://main\", urls: [ \(three) ] }")
        #expect(settings.redis.urls == ["redis://a", "redis://b", "rediss://:hunter2@c:6380/1"])
        #expect(settings.redis.url == "redis://main")
        let quorum = try settings.coordinatorConfiguration(redisURL: "redis://main").quorum
        #expect(quorum.map(\.displayName) == ["redis://a:6379/0", "redis://b:6379/0", "rediss://c:6380/1"])
        #expect(quorum.allSatisfy { $0.commandTimeout == settings.redis.timeout })
    }

    @Test("Without servers there is no quorum", arguments: ["", "redis: { urls: null }"])
    func none(yaml: String) throws {
        #expect(try configuration(yaml).redis.urls.isEmpty)
        #expect(try configuration(yaml).coordinatorConfiguration(redisURL: "redis://main").quorum.isEmpty)
    }

    @Test(
        "An invalid quorum is rejected",
        arguments: [
            (
                "[]",
                "redis.urls: expected 3-15 servers, preferably an odd number, got 0; fewer have no majority when one is down"
            ),
            (
                "[ \"redis://a\", \"redis://b\" ]",
                "redis.urls: expected 3-15 servers, preferably an odd number, got 2; fewer have no majority when one is down"
            ),
            ("\"redis://a\"", "redis.urls: expected a list of 3 or more URLs, got \"redis://a\""),
            (
                "[ \"redis://a\", \"redis://b\", \"http://c\" ]",
                "redis.urls[2]: expected a URL that begins with redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, redis+cluster:// or rediss+cluster:// (others are not supported), got \"http://c\""
            ),
            (
                "[ \"redis://a\", \"redis://b\", \"redis://c/x\" ]",
                "redis.urls[2]: expected a valid Redis URL (the database after the host must be a number from 0; percent-encode @ : / ? # % in a password), got \"redis://c/x\""
            ),
            (
                "[ \"redis://a\", \"redis://b\", \"redis://:hunter2@a:6379/7\" ]",
                "redis.urls[2]: the same server as redis.urls[0]; the servers must fail independently"
            ),
        ]
    )
    func invalidQuorumIsRejected(urls: String, error: String) {
        #expect(configurationErrors(of: "redis: { url: \"redis://main\", urls: \(urls) }") == ["file.yaml:1: \(error)"])
    }

    @Test("A quorum also requires the main Redis, which a flag may name")
    func mainRedis() {
        let yaml = "redis: { urls: [ \(three) ] }"
        let quorumAlone = "file.yaml:1: redis.urls: requires redis.url, because the quorum stores only locks;"
        #expect(configurationErrors(of: yaml) == ["\(quorumAlone) events and the list of sidecars are stored in redis.url"])
        #expect(
            configurationErrors(of: yaml + "\nservices: { catalog: {} }") == [
                "\(quorumAlone) limits, breakers, events and the list of sidecars are stored in redis.url"
            ])
        #expect(configurationErrors(of: yaml, flags: .init(redisURL: "redis://main")).isEmpty)
    }

    @Test("Waiting for replicas cannot be combined with a quorum")
    func waitingForReplicasCannotBeCombinedWithQuorum() {
        let yaml = "redis: { url: \"redis://main\", urls: [ \(three) ] }\nlocks: { wait_replicas: 1 }"
        #expect(
            configurationErrors(of: yaml) == [
                """
                file.yaml:2: locks.wait_replicas: expected 0 with redis.urls, whose majority replaces the wait for replicas, got 1
                """
            ])
    }

    @Test("Printing reveals no password of the servers")
    func printingRevealsNoPasswordOfServers() throws {
        let settings = try configuration("redis: { url: \"redis://main\", urls: [ \(three) ] }")
        var dumped = ""
        dump(settings, to: &dumped)
        for text in ["\(settings)", dumped] {
            #expect(text.contains("c:6380"))
            #expect(!text.contains("hunter2"))
        }
    }
}
