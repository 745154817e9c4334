internal import FoundationEssentials

/// A run as one HTML page that needs nothing else: tables, plots, and what was found.
public struct HTMLReport: Sendable {
    let report: RunReport

    public init(_ report: RunReport) {
        self.report = report
    }

    /// The page. Long series are thinned out to what can be seen, and never lose what stands out.
    public var text: String { HTMLPage(title: "\(report.title): \(report.check.verdict)", body: body).text }

    private var body: Markup {
        """
        <h1>interlock bench \(report.title)</h1>
        <p>\(subtitle)</p>
        <div class="verdict \(report.check.isClean ? "good" : "bad" as Markup)">\(report.check.verdict)</div>
        \(settings)
        \(violations)
        <h2>Operations</h2>
        \(operations)
        <p>Latencies count from when an operation was due, not from when it was sent. Only what was answered has one.</p>
        \(reasons)
        <h2>Over time</h2>
        <div class="plots">
        \(plots)</div>
        <h2>What it used</h2>
        \(usage)
        <h2>Faults</h2>
        \(faults)
        <h2>What was checked</h2>
        \(checks)
        """
    }

    private var subtitle: String {
        // To the end of the year 9999.
        let seconds = Double(min(max(report.startedAt, 0), 253_402_300_799_999)) / 1000
        let started = Date.ISO8601FormatStyle().format(Date(timeIntervalSince1970: seconds))
        return "\(Figure.span(seconds: report.duration)) from \(started), seed \(report.seed)"
    }
}
