import FoundationEssentials
import InterlockCore
import InterlockLoad
import Testing

@Suite("JSON report")
struct RunReportJSONTests {
    @Test("Keys contain units")
    func keysContainUnits() throws {
        let json = try RunReport.sample().json
        for name in [
            "\"started_at_ms\":1795000000000", "\"duration_s\":10", "\"p999_us\":9000", "\"latency_us\":400", "\"cores\":0.42",
            "\"resident_peak_bytes\":41943040", "\"recovered_after_s\":0.25", "\"stale_writes_refused\":3",
            "\"redis_commands_per_operation\":2.02", "\"refused\":{\"busy\":20,\"held\":1500}",
        ] {
            #expect(json.contains(name), "\(name)")
        }
    }

    @Test("The report is one line and reads back unchanged")
    func roundTrip() throws {
        let json = try RunReport.sample().json
        #expect(!json.contains("\n"))
        let roundTrip = try JSONDecoder().decode(RunReport.self, from: Data(json.utf8)).json
        #expect(roundTrip == json)
    }

    @Test("A non-finite figure does not prevent the report")
    func oddNumbers() throws {
        var report = RunReport.sample()
        report.processes[0].averageCores = .nan
        let json = try report.json
        #expect(json.contains("\"cores\":\"nan\""))
    }
}
