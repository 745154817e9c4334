import Glibc
import InterlockJudge
import InterlockLoad
import NIOConcurrencyHelpers

/// How a run stands, on standard error: one line that is written over where that is a terminal, else a line every ten seconds.
final class ProgressLine: Sendable {
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private let isOpen = NIOLockedValueBox(false)

    func show(_ progress: LoadProgress) {
        let text = Self.text(progress)
        guard isTerminal else {
            if Int(progress.seconds.rounded()).isMultiple(of: 10) { Terminal.tell("bench: \(text)") }
            return
        }
        isOpen.withLockedValue { $0 = true }
        Self.write("\r\u{1B}[K\(text)")
    }

    /// The cursor goes to a line of its own.
    func end() {
        let wasOpen = isOpen.withLockedValue { isOpen in
            defer { isOpen = false }
            return isOpen
        }
        if wasOpen { Self.write("\n") }
    }

    private static func text(_ progress: LoadProgress) -> String {
        let rate = progress.last.map { "\(Figure.count($0.done + $0.refused))/s" } ?? "-"
        let latency = progress.last?.p99.map { Figure.latency(microseconds: $0) } ?? "-"
        var parts = [
            "\(Int(progress.seconds.rounded())) s", "\(Figure.count(progress.done)) done",
            "\(Figure.count(progress.refused)) refused",
            "\(Figure.count(progress.failed + progress.unknown)) failed or unknown", rate, "p99 \(latency)",
            "\(Figure.count(progress.violations)) violations",
        ]
        if progress.waiting > 0 { parts.insert("\(Figure.count(progress.waiting)) late", at: 4) }
        if !progress.faults.isEmpty { parts.append(progress.faults.map(\.rawValue).joined(separator: "+")) }
        return parts.joined(separator: "  ")
    }

    private static func write(_ text: String) {
        var text = text
        // A closed standard error must not fail the run.
        text.withUTF8 { _ = Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}
