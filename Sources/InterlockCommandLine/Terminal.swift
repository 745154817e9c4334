internal import ArgumentParser
import Glibc

/// Answers go to standard output, everything else to standard error. Control characters never pass.
package enum Terminal {
    /// Prints an answer, at once.
    /// - Returns: `false` when the reader has closed the pipe.
    @discardableResult
    package static func show(_ text: String) -> Bool {
        print(lines(text))
        return fflush(nil) == 0
    }

    /// Prints an answer: a table for people, one line of JSON for programs.
    package static func show(_ answer: some Answer, asJSON: Bool) throws {
        show(try asJSON ? JSONOutput.text(answer) : answer.table)
    }

    /// Prints what is no answer, to standard error.
    package static func tell(_ text: String) {
        var message = lines(text) + "\n"
        message.withUTF8 { bytes in
            // A closed standard error must not fail the command.
            _ = write(STDERR_FILENO, bytes.baseAddress, bytes.count)
        }
    }

    private static func lines(_ text: String) -> String {
        text.split(separator: "\n", omittingEmptySubsequences: false).map(\.printable).joined(separator: "\n")
    }
}

/// The result of a command: fields for programs, a table for people.
package protocol Answer: Encodable {
    /// Lines without a last line end.
    var table: String { get }
}

/// How a command prints its answer.
package struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON, one line for each answer.")
    package var json = false

    package init() {}
}
