import InterlockCore
import SidecarSettings
import Testing

@Suite("Configuration: sample files")
struct ConfigurationSampleTests {
    /// The root directory of the repository.
    private var project: String {
        #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
    }

    @Test("The sample for one machine is accepted")
    func machine() throws {
        let read = try SidecarConfiguration.load(file: project + "/docs/sample.yaml", environment: [:])
        #expect(read.redis.isEmbedded)
        #expect(read.services.map(\.name) == ["catalog", "search", "shop", "partner"])
        // The limit that new users try first applies per tenant and denies calls; it does not open the breaker.
        #expect(read.services.first?.limits.first?.isPerSubject == true)
        #expect(read.services.first?.onLimit.action == .deny)
        #expect(read.warnings.isEmpty)
    }

    @Test("The sample for Docker Compose is accepted")
    func compose() throws {
        let read = try SidecarConfiguration.load(
            file: project + "/docker/interlock.yaml",
            environment: ["INTERLOCK_OPS_KEY": "one-of-16-letters", "INTERLOCK_WEB_KEY": "two-of-16-letters"]
        )
        #expect(read.redis.url == "redis://redis:6379")
        #expect(read.keys.map(\.name) == ["ops", "web"])
        #expect(read.services.map(\.name) == ["catalog", "search"])
        #expect(read.warnings.isEmpty)
    }
}
