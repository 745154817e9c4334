import Glibc
import InterlockOutput

/// The output of commands: answers go to standard output, everything else to standard error. Control characters are
/// replaced.
package enum Terminal {
    /// Prints an answer immediately. Blocks while the output is not read, so it is only for commands that print and
    /// exit.
    package static func show(_ text: String) {
        print(lines(text))
        fflush(nil)
    }

    /// Prints one of many answers, and suspends the task until it is written. For commands that keep running and must
    /// exit on a signal even if the output is not read.
    /// - Returns: `false` if the reader has closed the pipe, or the task was cancelled.
    package static func showNext(_ text: String) async -> Bool {
        await LineWriter.standardOutput.write(lines(text))
    }

    /// Prints an answer: a human-readable table, or one line of JSON for programs.
    package static func show(_ answer: some CommandOutput, asJSON: Bool) throws {
        show(try asJSON ? JSONOutput.text(answer) : answer.table)
    }

    /// Prints a message other than an answer to standard error. Blocks only briefly, even if the output is not read.
    package static func report(_ text: String) {
        LineWriter.standardError.add(lines(text), waiting: maximumReportDelay)
    }

    /// Writes pending output if that is possible within half a second. Called last in a process.
    package static func flush() {
        for writer in [LineWriter.standardOutput, .standardError] where writer.isBusy { writer.flush(within: .milliseconds(500)) }
    }

    /// The maximum time to wait for a message to be written, so that it precedes later output on other descriptors.
    private static let maximumReportDelay = Duration.milliseconds(100)

    private static func lines(_ text: String) -> String {
        text.split(separator: "\n", omittingEmptySubsequences: false).map(\.printable).joined(separator: "\n")
    }
}
