import FoundationEssentials
import Interlock
import SidecarSettings
import Logging
import NIOPosix
import RedisClient
import Testing

/// Messages about a URL show no part of its password, and implausible secrets are rejected or cause a warning.
@Suite("Configuration: secrets in messages")
struct ConfigurationSecretsTests {
    @Test(
        "No error about a Redis URL reveals part of its password",
        arguments: [
            "redis://u:p@SECRET/word@h:6379", "redis://u:p@ss/SECRET@h:6379", "redis://u:p/SECRET@h:6379",
            "redis://u:SECRET?x@h:6379", "redis://u:SECRET#x@h",
            "redis://:SECRET@h:6379/x", "tcp://u:SECRET@h", "redis://u:p@SECRET@h/x", "redis+sentinel://u:p@SECRET/x@s1/main",
            "redis+sentinel://s1/main?sentinel_password=SECRET&x=1", "redis+cluster://u:p@SECRET/word@c1",
            "unix://u:p@SECRET@/run/x?y=1", "redis://u:%zzSECRET@h", "redis://u:SECRET%@h", "u:SECRET@h:6379",
            "redis://:SECRET", "redis://default:SECRET", "redis://me:SECRET/h:6379", "redis://:P@SECRET#1@redis:6379",
        ])
    func noErrorAboutRedisURLRevealsPartOfPassword(url: String) {
        let quoted = "\"\(url)\""
        let quorum = "redis: { url: redis://a, urls: [redis://b, redis://c, \(quoted)] }"
        for yaml in ["redis: { url: \(quoted) }", "redis: \(quoted)", quorum] {
            let errors = configurationErrors(of: yaml)
            #expect(!errors.isEmpty, "\(yaml)")
            for problem in errors { #expect(!problem.contains("SECRET"), "\(problem)") }
        }
        for problem in configurationErrors(of: "", environment: ["INTERLOCK_REDIS_URL": url])
            + configurationErrors(of: "", flags: .init(redisURL: url))
        {
            #expect(!problem.contains("SECRET"), "\(problem)")
        }
    }

    @Test(
        "No error about another address reveals part of its password",
        arguments: [
            "services: { a: { url: \"http://u:p@SECRET/word@h\" } }", "services: { a: { url: \"ftp://u:SECRET@h/x\" } }",
            "services: { a: { url: \"http://h/x?key=SECRET\" } }", "services: { a: \"http://u:p@SECRET/w@h\" }",
            "listen: { resp: \"redis://:SECRET@127.0.0.1:7379\" }", "listen: { http: \"u:p@SECRET/x@127.0.0.1:80\" }",
            "listen: { grpc: \"http://:SECRET@h:1\" }", "tracing: { endpoint: \"http://u:p@SECRET/x@h:4318\" }",
            "tracing: { endpoint: \"http://h:4318/v1?api-key=SECRET\" }",
            "services: { a: { url: \"http://h\", probe: { url: \"ftp://u:p@SECRET/x@h/\" } } }",
        ])
    func noErrorAboutAnotherAddressRevealsPartOfPassword(yaml: String) {
        let errors = configurationErrors(of: yaml)
        #expect(!errors.isEmpty, "\(yaml)")
        for problem in errors { #expect(!problem.contains("SECRET"), "\(problem)") }
    }

    @Test("The error for a password with an @ and a slash states the remedy")
    func errorForPasswordWithAndSlashStatesRemedy() {
        let errors = configurationErrors(of: "redis: { url: \"redis://u:p@ss/word@h:6379\" }")
        #expect(errors.first?.contains("percent-encode") ?? false, "\(errors)")
        #expect(errors.first?.contains("or use redis.password_file") ?? false, "\(errors)")
    }

    @Test("The error for a password with an @ in a flag states the remedy without revealing the password")
    func errorForAtSignHidesPassword() {
        let errors = configurationErrors(of: "", flags: .init(redisURL: "redis+sentinel://u:p@SECRET/x@s1/main"))
        #expect(errors.count == 1)
        #expect(errors.first?.contains("percent-encode") ?? false, "\(errors)")
        #expect(errors.first?.contains("or use redis.password_file") ?? false, "\(errors)")
        #expect(errors.first?.contains("SECRET") == false, "\(errors)")
    }

    @Test("A redis.url with Sentinel's port causes a warning")
    func sentinelPort() throws {
        let warnings = try configuration("redis: { url: redis://s1:26379 }").warnings
        #expect(warnings.count == 1 && warnings.first?.contains("redis.sentinels") ?? false, "\(warnings)")
        #expect(try configuration("redis: { url: redis://s1:6379 }").warnings.isEmpty)
        #expect(try configuration("redis: { url: redis+sentinel://s1:26379/main }").warnings.isEmpty)
    }

    @Test("A stray percent sign is rejected, even in a password", arguments: ["p%zz", "p%", "p%4", "100%sure"])
    func strayPercentSignIsRejected(password: String) throws {
        let error = #expect(throws: RedisURLError.self) { try RedisConfiguration(url: "redis://u:\(password)@h") }
        #expect(error?.reason.contains("%25") ?? false, "\(String(describing: error))")
        #expect(try RedisConfiguration(url: "redis://u:p%25zz%40@h").password == "p%zz@")
    }

    @Test("A key shorter than 16 characters causes a warning that names it but does not reveal it")
    func shortKeys() throws {
        let long = "0123456789abcdef"
        let settings = try configuration(
            "auth: { keys: [ { name: ops, key: x, role: admin }, { name: web, key: \(long), role: use } ] }")
        #expect(settings.warnings.count == 1)
        #expect(settings.warnings.first?.contains("\"ops\" has 1 character") ?? false, "\(settings.warnings)")
    }

    @Test("A Redis server named by a flag or a variable overrides redis.embedded: true")
    func namedRedisOverridesEmbeddedRedis() throws {
        let file = "redis: { embedded: true }"
        #expect(try configuration(file, flags: .init(redisURL: "redis://flag")).redis.url == "redis://flag")
        #expect(try configuration(file, environment: ["INTERLOCK_REDIS_URL": "redis://variable"]).redis.url == "redis://variable")
        // Only a conflict within one file is an error.
        #expect(
            configurationErrors(of: "redis: { url: redis://h, embedded: true }") == [
                "file.yaml:1: redis.embedded: true conflicts with redis.url; remove one of them"
            ])
        #expect(
            configurationErrors(of: "redis: { cluster: [h], embedded: true }") == [
                "file.yaml:1: redis.embedded: true conflicts with redis.cluster; remove one of them"
            ])
        #expect(
            configurationErrors(of: "redis: { url: redis://h, embedded: true }", flags: .init(redisURL: "redis://flag")).count
                == 1)
    }

    @Test("A redis.url that points to a sidecar's RESP API is rejected", .timeLimit(.minutes(1)))
    func sidecarAsRedis() async throws {
        for keys in [[], [APIKey(name: "ops", secret: "0123456789abcdef", role: .admin)]] {
            try await RESPTestAPI.with(keys: keys) { api in
                var redis = try RedisConfiguration(url: "redis://127.0.0.1:\(api.port)")
                redis.password = keys.first?.secret
                redis.connectTimeout = .seconds(2)
                let coordinator = Coordinator(
                    configuration: InterlockConfiguration(redis: redis, host: "test"),
                    eventLoop: MultiThreadedEventLoopGroup.singleton.next(),
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
                await coordinator.start()
                await coordinator.waitUntilReady(timeout: .seconds(1))
                let status = await coordinator.status
                #expect(await !coordinator.isReady)
                #expect(!status.isRedisUp)
                #expect(
                    status.redisFailure?.contains("is the RESP API of an Interlock sidecar, not a Redis server") ?? false,
                    "\(status.redisFailure ?? "no failure")")
                await coordinator.stop()
            }
        }
    }
}
