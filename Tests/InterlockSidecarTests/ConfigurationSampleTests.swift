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
    func sampleForOneMachineIsAccepted() throws {
        let settings = try SidecarConfiguration.load(file: project + "/docs/sample.yaml", environment: [:])
        #expect(settings.redis.isEmbedded)
        #expect(settings.services.map(\.name) == ["catalog", "search", "shop", "partner"])
        // The limit that new users try first applies per tenant and denies calls; it does not open the breaker.
        #expect(settings.services.first?.limits.first?.isPerSubject == true)
        #expect(settings.services.first?.onLimit.action == .deny)
        #expect(settings.warnings.isEmpty)
    }

    @Test("The sample for Docker Compose is accepted")
    func sampleForDockerComposeIsAccepted() throws {
        let settings = try SidecarConfiguration.load(
            file: project + "/docker/interlock.yaml",
            environment: ["INTERLOCK_OPS_KEY": "one-of-16-letters", "INTERLOCK_WEB_KEY": "two-of-16-letters"]
        )
        #expect(settings.redis.url == "redis://redis:6379")
        #expect(settings.keys.map(\.name) == ["ops", "web"])
        #expect(settings.services.map(\.name) == ["catalog", "search"])
        #expect(settings.warnings.isEmpty)
    }
}
