import InterlockJudge
import InterlockCore
import InterlockLoad
import Testing

@Suite("HTML report")
struct HTMLReportTests {
    @Test("The page loads no resources and runs no scripts")
    func isSelfContained() {
        let page = HTMLReport(.sample()).text
        for part in ["http://", "https://", "<script", "<link", "<img", "src=", "url(", "@import"] {
            #expect(!page.contains(part), "\(part)")
        }
    }

    @Test("The verdict counts all violations")
    func verdictCountsViolations() {
        var report = RunReport.sample()
        report.check.violations = [Violation(.exclusion, at: Instant(nanoseconds: 1_500_000_000), "two hold lock 0")]
        report.check.violationCount = 7
        let page = HTMLReport(report).text
        #expect(page.contains("7 violations in 49,920 operations"))
        #expect(page.contains("exclusion at 1500 ms: two hold lock 0"))
        #expect(page.contains("… and 6 more"))
    }

    @Test("Untrusted names are shown as text")
    func untrustedNamesAreShownAsText() {
        let name = "<script>alert('x')</script>"
        var report = RunReport.sample()
        report.title = name
        report.settings = [.init(name: name, value: name)]
        report.operations[0].refused = [name: 1]
        report.operations[0].failed = [name: 1]
        report.processes[0].name = name
        report.windows[0].service = name
        report.check.violations = [Violation(.limits, at: Instant(nanoseconds: 0), name)]
        let page = HTMLReport(report).text
        #expect(!page.contains("<script"))
        #expect(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"))
    }

    @Test("Plots without data say that there is nothing to show")
    func empty() {
        let page = HTMLReport(.empty()).text
        #expect(page.split(separator: "nothing to show").count == 6)
        #expect(page.contains("0 violations in 0 operations"))
    }

    @Test("Figures that are not numbers still produce a valid page")
    func oddNumbers() {
        var report = RunReport.sample()
        report.durationSeconds = .nan
        report.redisCommands = .infinity
        report.redisCommandsPerOperation = .nan
        report.timeline = [TimelinePoint(second: .max, p50: .nan, p99: .infinity, max: -1)]
        report.operations[0].latency?.percentiles = [
            .init(fraction: 2, microseconds: .nan), .init(fraction: .nan, microseconds: 1),
        ]
        report.processes[0].averageCores = -.infinity
        report.faults = [
            FaultReport(
                number: 0, kind: .clock, sidecar: nil, beganSeconds: .nan, endedSeconds: .infinity,
                recoveredAfterSeconds: .nan)
        ]
        report.ownership = [
            OwnershipSpan(lock: .min, client: .min, sidecar: 0, fence: .min, beganSeconds: 2, endedSeconds: 1)
        ]
        report.windows = [WindowCount(service: "", beganSeconds: .nan, granted: .max, limit: .min)]
        let page = HTMLReport(report).text
        #expect(!page.contains("\"nan"))
        #expect(!page.contains("\"inf"))
        #expect(page.contains("</html>"))
    }

    @Test("A single second is visible as a point")
    func singlePoint() {
        var report = RunReport.sample()
        report.timeline = [TimelinePoint(second: 4, p50: 180)]
        #expect(HTMLReport(report).text.contains("p50: 180µs at 4.00s"))
    }

    @Test("A window over its limit is highlighted, and its tooltip shows by how much")
    func overLimit() {
        var report = RunReport.sample()
        report.windows.append(WindowCount(service: "catalog", beganSeconds: 1, granted: 131, limit: 100))
        let page = HTMLReport(report).text
        #expect(page.contains("<title>1.00s: 131 of 100</title>"))
        #expect(page.split(separator: "<rect class=\"area alarm\"").count == 3, "the legend's and the bar")
    }

    @Test("A lease shows its client, sidecar, fence and times")
    func leaseShowsClientSidecarAndFence() {
        let page = HTMLReport(.sample()).text
        #expect(page.contains("<title>client 7, sidecar 0, fence 1790000000000001, 1.00s – 1.50s</title>"))
    }

    @Test("Faults shade the plots over time with their names")
    func faultsShadePlotsOverTimeWithNames() {
        let page = HTMLReport(.sample()).text
        #expect(page.contains("<title>fault 0: kill, sidecar 0, 3.00s – 3.50s, recovered after 250ms</title>"))
        #expect(page.contains(">kill 0</text>"))
    }

    @Test("The page of a long run stays small")
    func isBounded() {
        var report = RunReport.sample()
        report.timeline = (0..<86_400).map {
            TimelinePoint(second: $0, offered: $0 % 977, p50: Double($0 % 7 + 1), p99: 500, max: 900)
        }
        report.ownership = (0..<50_000).map {
            OwnershipSpan(
                lock: $0 % 40, client: $0 % 9, sidecar: 0, fence: Int64($0), beganSeconds: Double($0),
                endedSeconds: Double($0 + 1))
        }
        report.windows = (0..<86_400).map {
            WindowCount(service: "catalog", beganSeconds: Double($0), granted: 9, limit: 10)
        }
        report.faults = (0..<10_000).map {
            FaultReport(
                number: 0, kind: .kill, sidecar: 0, beganSeconds: Double($0 * 8), endedSeconds: Double($0 * 8 + 1))
        }
        report.check.violations = (0..<10_000).map { Violation(.exclusion, at: Instant(nanoseconds: Int64($0)), "two hold it") }
        #expect(HTMLReport(report).text.utf8.count < 3_000_000)
    }
}
