import FoundationEssentials
import Glibc

/// What a run found, printed for the program that started it.
protocol Figures: Encodable, Sendable {}

extension Figures {
    /// Prints one line of JSON, at once: standard output is a pipe, and somebody waits for the line.
    func show() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        print(String(decoding: try encoder.encode(self), as: UTF8.self))
        fflush(nil)
    }
}
