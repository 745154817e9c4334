import FoundationEssentials
import Glibc
import NIOCore

/// What a run found, printed for the program that started it.
protocol Figures: Encodable, Sendable {}

extension Figures {
    /// Prints one line of JSON, at once: standard output is a pipe, and its reader waits for the line.
    func show() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        print(String(decoding: try encoder.encode(self), as: UTF8.self))
        fflush(nil)
    }
}

extension TimeAmount {
    /// The command line's unit.
    init(seconds: Double) {
        self = .nanoseconds(Int64(seconds * 1_000_000_000))
    }

    var inSeconds: Double { Double(nanoseconds) / 1_000_000_000 }
    var inMilliseconds: Double { Double(nanoseconds) / 1_000_000 }
}

/// Why there is no figure.
struct BenchmarkFailure: Error, CustomStringConvertible {
    var description: String

    init(_ description: String) {
        self.description = description
    }
}
