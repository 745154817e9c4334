import Glibc
import InterlockOutput

/// Answers go to standard output, everything else to standard error. Control characters never pass.
package enum Terminal {
    /// Prints an answer, at once. Blocks while nobody reads: for commands that print and end.
    package static func show(_ text: String) {
        print(lines(text))
        fflush(nil)
    }

    /// Prints one of many answers, and suspends the task until it is written: for commands that go on and must still end on a signal.
    /// - Returns: `false` when the reader has closed the pipe, or the task was cancelled.
    package static func showNext(_ text: String) async -> Bool {
        await LineWriter.standardOutput.write(lines(text))
    }

    /// Prints an answer: a table for people, one line of JSON for programs.
    package static func show(_ answer: some Answer, asJSON: Bool) throws {
        show(try asJSON ? JSONOutput.text(answer) : answer.table)
    }

    /// Prints a message that is no answer, to standard error. Does not block longer than a moment, whoever reads it or does not.
    package static func tell(_ text: String) {
        LineWriter.standardError.add(lines(text), waiting: moment)
    }

    /// Writes what still waits to be printed, if it can be written soon. The last act of a process.
    package static func flush() {
        for writer in [LineWriter.standardOutput, .standardError] where writer.isBusy { writer.flush(within: .milliseconds(500)) }
    }

    /// The longest that a message holds up its sender, so that it comes before what is printed next elsewhere.
    private static let moment = Duration.milliseconds(100)

    private static func lines(_ text: String) -> String {
        text.split(separator: "\n", omittingEmptySubsequences: false).map(\.printable).joined(separator: "\n")
    }
}
