internal import InterlockJudge

extension HTMLReport {
    /// The maximum number of rows in a table of this page.
    private static let maximumRows = 500

    var settings: Markup {
        guard !report.settings.isEmpty else { return "" }
        return "<dl>\(report.settings.prefix(Self.maximumRows).map { "<dt>\($0.name)</dt><dd>\($0.value)</dd>" as Markup })</dl>"
    }

    var violations: Markup {
        guard !report.check.isClean else { return "" }
        let shownViolations = report.check.violations.prefix(Self.maximumRows)
        let hiddenCount = report.check.total - shownViolations.count
        return """
            <h2>Violations</h2>
            <ol>\(shownViolations.map { "<li>\($0.description)</li>\n" as Markup })</ol>
            \(hiddenCount > 0 ? "<p>… and \(Figure.count(hiddenCount)) more.</p>" : "" as Markup)
            """
    }

    var operations: Markup {
        let rows = report.operations.map { operation in
            [
                operation.kind.rawValue, Figure.count(operation.offered), Figure.count(operation.done),
                Figure.count(operation.refusedCount), Figure.count(operation.failedCount), Figure.count(operation.unknown),
                Figure.count(operation.unsent),
            ]
                + [\LatencyReport.p50, \.p90, \.p99, \.p999, \.max].map { percentile in
                    operation.latency.map { Figure.latency(microseconds: $0[keyPath: percentile]) } ?? Figure.missingValue
                }
        }
        let columns = [
            "operation", "offered", "done", "refused", "failed", "unknown", "unsent", "p50", "p90", "p99", "p99.9", "max",
        ]
        return HTMLPage.table("operations", columns, rows)
    }

    var reasons: Markup {
        let rows = report.operations.flatMap { operation in
            operation.reasons.map { [operation.kind.rawValue, $0.ending.rawValue, $0.reason, Figure.count($0.count)] }
        }
        guard !rows.isEmpty else { return "" }
        return HTMLPage.table(
            "reasons", ["operation", "ended", "reason", "count"], Array(rows.prefix(Self.maximumRows)), words: 3)
    }

    var usage: Markup {
        let rows = report.processes.prefix(Self.maximumRows).map {
            [
                $0.name, Figure.decimals($0.averageCores, 2), Figure.memory(bytes: $0.residentPeakBytes),
                Figure.memory(bytes: $0.residentEndBytes),
            ]
        }
        return """
            \(HTMLPage.table("processes", ["process", "cores", "peak memory", "final memory"], Array(rows)))
            <p>Redis commands: \(report.redisUse).</p>
            """
    }

    var faults: Markup {
        guard !report.faults.isEmpty else { return "<p>No faults were injected.</p>" }
        let rows = report.faults.prefix(Self.maximumRows).map { fault in
            [
                "\(fault.number)", fault.kind.rawValue, fault.target, Figure.moment(seconds: fault.beganSeconds),
                Figure.moment(seconds: fault.endedSeconds),
                fault.recoveredAfterSeconds.map { Figure.span(seconds: $0) } ?? Figure.missingValue,
            ]
        }
        let hiddenCount = report.faults.count - rows.count
        return """
            \(HTMLPage.table("faults", ["fault", "kind", "target", "began", "ended", "recovered after"], Array(rows), words: 3))
            \(hiddenCount > 0 ? "<p>… and \(Figure.count(hiddenCount)) more.</p>" : "" as Markup)
            """
    }

    var checks: Markup {
        let check = report.check
        let rows = [
            ["operations", Figure.count(check.operations)], ["lock grants", Figure.count(check.lockGrants)],
            ["limit decisions", Figure.count(check.limitDecisions)],
            ["stale writes rejected", Figure.count(check.staleWritesRefused)],
            ["leases lost to failovers", Figure.count(check.lostLeaseCount)],
            ["violations", Figure.count(check.total)],
        ]
        return HTMLPage.table("checks", ["what", "count"], rows)
    }
}
