import ArgumentParser
import Glibc
import InterlockCore
import InterlockSidecar

/// A duration on the command line, written as in the configuration: `500ms`, `2s`, `1m`.
struct DurationArgument: ExpressibleByArgument, Sendable {
    let duration: Duration

    /// The default length of a lease.
    static let standardLease = DurationArgument(.seconds(30))
    /// No wait.
    static let none = DurationArgument(.zero)

    init(_ duration: Duration) {
        self.duration = duration
    }

    init?(argument: String) {
        guard let duration = try? DurationText.parse(argument) else { return nil }
        self.duration = duration
    }

    var milliseconds: Int64 { duration.wholeMilliseconds }

    var defaultValueDescription: String { DurationText.shortest(duration) }
}

/// The variables of this process.
enum ProcessEnvironment {
    static var variables: [String: String] {
        var variables: [String: String] = [:]
        var entry = environ
        while let pointer = entry.pointee {
            let text = String(cString: pointer)
            if let equals = text.firstIndex(of: "=") {
                variables[String(text[..<equals])] = String(text[text.index(after: equals)...])
            }
            entry += 1
        }
        return variables
    }
}
