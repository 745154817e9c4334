import InterlockCore

@testable import InterlockJudge
import Testing

@testable import InterlockLoad

@Suite("The configuration of the sidecars that the harness starts")
struct FleetConfigurationTests {
    private let yaml = FleetConfiguration(
        services: StandardServices(upstream: "http://127.0.0.1:1234", extraCount: 2).services, sidecars: 4
    ).yaml

    @Test("Every limit is written as it is checked")
    func everyLimitIsWrittenAsItIsChecked() {
        #expect(yaml.contains("{ name: limit-0, limit: 200, per: 1000ms, algorithm: gcra, burst: 40 }"))
        #expect(yaml.contains("{ name: limit-1, limit: 10, per: 1000ms, algorithm: fixed, per_subject: true }"))
    }

    @Test("A breaker has the number of trial permits that the check assumes")
    func breakerHasTrialPermitsThatCheckAssumes() {
        #expect(yaml.contains("half_open_permits: 5 }"))
    }

    @Test("The fleet's size and the upstream are written")
    func fleetSizeAndUpstreamAreWritten() {
        #expect(yaml.contains("fleet_size: 4\n"))
        #expect(yaml.contains("url: \"http://127.0.0.1:1234\"\n"))
    }

    @Test("Additional services replace the standard ones")
    func additionalServicesReplaceStandardOnes() {
        let services = StandardServices(extraCount: 3)
        #expect(services.load.takeServiceNumbers.map { services.load.rules[$0].name } == (0..<3).map { "bench-service-\($0)" })
        #expect(services.load.permitServiceNumbers == services.load.takeServiceNumbers)
    }

    @Test("Each service that can fail has its own bad phases")
    func failurePhases() {
        let services = StandardServices(upstream: "http://127.0.0.1:1")
        let phases = services.failurePhases(length: .seconds(60), random: SeededRandom(seed: 1))
        #expect(Set(phases.keys) == Set(services.load.permitServiceNumbers + services.load.proxiedServiceNumbers))
        #expect(Set(phases.values).count == phases.count)
    }
}
