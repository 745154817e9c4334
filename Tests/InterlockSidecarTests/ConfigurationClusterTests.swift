import Interlock
import InterlockSidecar
import SidecarSettings
import RedisClient
import Testing

@Suite("Configuration: a Redis Cluster")
struct ConfigurationClusterTests {
    @Test("The servers are listed, and TLS changes their URLs")
    func serversAreListed() throws {
        let settings = try configuration("redis: { cluster: [R1, \"r2:7000\", \"[::1]\"] }")
        #expect(settings.redis.url == "redis+cluster://r1:6379,r2:7000,[::1]:6379")
        let server = try settings.coordinatorConfiguration(redisURL: try #require(settings.redis.url)).redis
        #expect(server.displayName == "redis+cluster://r1:6379,r2:7000,[::1]:6379")
        let secured = try configuration("redis: { cluster: [r1], tls: { server_name: redis.internal } }")
        #expect(secured.redis.url == "rediss+cluster://r1:6379")
    }

    @Test(
        "An invalid setting is rejected with its location",
        arguments: [
            (
                "{ url: \"redis+cluster://r1/2\" }",
                "redis.url: expected a valid Redis URL (a cluster has only database 0), got \"redis+cluster://r1/2\""
            ),
            (
                "{ url: \"redis+cluster://r1,r1\" }",
                "redis.url: expected a valid Redis URL (it names a server twice), got \"redis+cluster://r1,r1\""
            ),
            ("{ cluster: [] }", "redis.cluster: expected 1-50 different servers"),
            ("{ cluster: [r1, \"R1:6379\"] }", "redis.cluster: expected 1-50 different servers"),
            (
                "{ cluster: [\"r1/0\"] }",
                "redis.cluster[0]: expected a cluster server as host[:port], such as redis-1:6379, got \"r1/0\""
            ),
            (
                "{ url: \"redis://a\", cluster: [r1] }",
                "redis.cluster: conflicts with redis.url, redis.url_env or redis.sentinels; keep one"
            ),
        ]
    )
    func invalidSettingIsRejectedWithLocation(yaml: String, error: String) {
        #expect(
            configurationErrors(of: "redis: \(yaml)").first?.hasSuffix(error) ?? false,
            "\(configurationErrors(of: "redis: \(yaml)"))")
    }

    @Test("A cluster cannot be a server of a quorum")
    func clusterCannotBeServerOfQuorum() {
        let errors = configurationErrors(
            of: "redis: { url: \"redis://a\", urls: [ \"redis://b\", \"redis://c\", \"redis+cluster://d\" ] }")
        #expect(
            errors.first?.contains(
                "redis.urls[2]: expected an independent server; a failover in a cluster can lose granted locks")
                ?? false,
            "\(errors)")
    }
}
