import FoundationEssentials
import Glibc
import NIOCore

/// The results of a run, printed for the program that started it.
protocol Figures: Encodable, Sendable {}

extension Figures {
    /// Prints one line of JSON and flushes it, because another program waits for the line on a pipe.
    func printLine() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        print(String(decoding: try encoder.encode(self), as: UTF8.self))
        fflush(nil)
    }
}

extension TimeAmount {
    /// Creates an amount from seconds, the unit of the command line.
    init(seconds: Double) {
        self = .nanoseconds(Int64(seconds * 1_000_000_000))
    }

    var inSeconds: Double { Double(nanoseconds) / 1_000_000_000 }
    var inMilliseconds: Double { Double(nanoseconds) / 1_000_000 }
}

/// A failure because of which a run has no figures.
struct BenchmarkFailure: Error, CustomStringConvertible {
    var description: String

    init(_ description: String) {
        self.description = description
    }
}
