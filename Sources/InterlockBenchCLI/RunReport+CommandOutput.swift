import Glibc
import InterlockCommandLine
import InterlockCore
import InterlockJudge
import InterlockLoad
import InterlockOutput
import NIOConcurrencyHelpers

extension RunReport: CommandOutput {
    package var table: String {
        [heading, settingsTable, operationsTable, reasonsTable, processesTable, faultsTable, checksTable, violationLines]
            .compactMap(\.self).joined(separator: "\n\n") + "\n\n" + check.verdict
    }

    private var heading: String {
        "\(title) for \(Figure.span(seconds: durationSeconds)) from "
            + "\(ReadableText.moment(epochMilliseconds: startedAtMilliseconds)), seed \(seed)"
    }

    private var settingsTable: String? {
        guard !settings.isEmpty else { return nil }
        var table = Table([:])
        for setting in settings { table.add([setting.name, setting.value]) }
        return table.text
    }

    private var operationsTable: String {
        var table = Table([
            "OPERATION", "OFFERED", "DONE", "REFUSED", "FAILED", "UNKNOWN", "UNSENT", "P50", "P90", "P99", "P99.9", "MAX",
        ])
        for operation in operations {
            let counts = [
                operation.offered, operation.done, operation.refusedCount, operation.failedCount, operation.unknown,
                operation.unsent,
            ]
            let latencies = [\LatencyReport.p50, \.p90, \.p99, \.p999, \.max].map { percentile in
                operation.latency.map { Figure.latency(microseconds: $0[keyPath: percentile]) } ?? ""
            }
            table.add([operation.kind.rawValue] + counts.map { Figure.count($0) } + latencies)
        }
        return table.text
    }

    private var reasonsTable: String? {
        var table = Table(["OPERATION", "ENDED", "REASON", "COUNT"])
        let reasons = operations.flatMap { operation in operation.reasons.map { (operation.kind, $0) } }
        guard !reasons.isEmpty else { return nil }
        for (kind, reason) in reasons {
            table.add([kind.rawValue, reason.ending.rawValue, reason.reason, Figure.count(reason.count)])
        }
        return table.text
    }

    private var processesTable: String {
        var table = Table(["PROCESS", "CORES", "PEAK MEMORY", "FINAL MEMORY"])
        for process in processes {
            table.add([
                process.name, Figure.decimals(process.averageCores, 2), Figure.memory(bytes: process.residentPeakBytes),
                Figure.memory(bytes: process.residentEndBytes),
            ])
        }
        return table.text
    }

    private var faultsTable: String? {
        guard !faults.isEmpty else { return nil }
        var table = Table(["FAULT", "KIND", "TARGET", "BEGAN", "ENDED", "RECOVERED AFTER"])
        for fault in faults {
            table.add([
                "\(fault.number)", fault.kind.rawValue, fault.target, Figure.moment(seconds: fault.beganSeconds),
                Figure.moment(seconds: fault.endedSeconds),
                fault.recoveredAfterSeconds.map { Figure.span(seconds: $0) } ?? "",
            ])
        }
        return table.text
    }

    private var checksTable: String {
        Table([
            "Redis commands": redisUse,
            "Operations checked": Figure.count(check.operations),
            "Lock grants": Figure.count(check.lockGrants),
            "Limit decisions": Figure.count(check.limitDecisions),
            "Stale writes refused": Figure.count(check.staleWritesRefused),
            "Leases lost": Figure.count(check.lostLeaseCount),
        ]).text
    }

    private var violationLines: String? {
        guard !check.isClean else { return nil }
        let lines = check.violations.prefix(Self.maximumViolations).map { $0.description.printable }
        let hiddenCount = check.total - lines.count
        return (lines + (hiddenCount > 0 ? ["… and \(Figure.count(hiddenCount)) more"] : [])).joined(separator: "\n")
    }

    private static let maximumViolations = 20
}

/// Shows the progress of a run on standard error. On a terminal, each state overwrites the last one; otherwise, one
/// line is printed every ten seconds.
final class ProgressLine: Sendable {
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private let isOpen = NIOLockedValueBox(false)

    func show(_ progress: LoadProgress) {
        let line = Self.line(progress)
        guard isTerminal else {
            if Int(progress.seconds.rounded()).isMultiple(of: 10) { Terminal.report("bench: \(line)") }
            return
        }
        isOpen.withLockedValue { $0 = true }
        Self.write("\r\u{1B}[K\(line)")
    }

    /// Moves the cursor to a new line if the current one shows the progress.
    func end() {
        let wasOpen = isOpen.withLockedValue { isOpen in
            defer { isOpen = false }
            return isOpen
        }
        guard wasOpen else { return }
        LineWriter.standardError.add("", waiting: .milliseconds(100))
    }

    private static func line(_ progress: LoadProgress) -> String {
        let rate = progress.last.map { "\(Figure.count($0.done + $0.refused))/s" } ?? "-"
        let latency = progress.last?.p99.map { Figure.latency(microseconds: $0) } ?? "-"
        var parts = [
            "\(Int(progress.seconds.rounded())) s", "\(Figure.count(progress.done)) done",
            "\(Figure.count(progress.refused)) refused",
            "\(Figure.count(progress.failed + progress.unknown)) failed or unknown", rate, "p99 \(latency)",
            "\(Figure.count(progress.violations)) \(progress.violations == 1 ? "violation" : "violations")",
        ]
        if progress.waiting > 0 { parts.insert("\(Figure.count(progress.waiting)) late", at: 4) }
        if !progress.faults.isEmpty { parts.append(progress.faults.map(\.rawValue).joined(separator: "+")) }
        return parts.joined(separator: "  ")
    }

    private static func write(_ text: String) { LineWriter.standardError.add(bytes: Array(text.utf8)) }
}
