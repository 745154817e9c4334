import Glibc
import InterlockOutput

/// The output of commands: answers go to standard output, all other messages to standard error. Both are free of
/// control characters.
package enum Terminal {
    /// Prints an answer immediately. Blocks until the reader takes the output, so only commands that print and exit may
    /// use this method.
    package static func show(_ text: String) {
        print(lines(text))
        fflush(nil)
    }

    /// Prints one of many answers, and suspends the task until it is written. Serves commands that keep running and
    /// must exit on a signal even if nothing reads the output.
    /// - Returns: `false` if the reader has closed the pipe, or the task was cancelled.
    package static func showNext(_ text: String) async -> Bool {
        await LineWriter.standardOutput.write(lines(text))
    }

    /// Prints an answer: a human-readable table, or one line of JSON for programs.
    package static func show(_ answer: some CommandOutput, asJSON: Bool) throws {
        show(try asJSON ? JSONOutput.text(answer) : answer.table)
    }

    /// Prints a message other than an answer to standard error. Blocks only briefly, even if nothing reads the output.
    package static func report(_ text: String) {
        LineWriter.standardError.add(lines(text), waiting: maximumReportDelay)
    }

    /// Writes the pending output of both streams, for at most half a second each.
    package static func flush() {
        for writer in [LineWriter.standardOutput, .standardError] where writer.isBusy { writer.flush(within: .milliseconds(500)) }
    }

    /// The maximum time to wait for a message to be written, so that it precedes later output on other descriptors.
    private static let maximumReportDelay = Duration.milliseconds(100)

    private static func lines(_ text: String) -> String {
        text.split(separator: "\n", omittingEmptySubsequences: false).map(\.printable).joined(separator: "\n")
    }
}
