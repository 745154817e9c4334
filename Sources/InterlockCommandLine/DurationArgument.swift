package import ArgumentParser
import InterlockCore

/// A duration on the command line, written as in the configuration: `500ms`, `2s`, `1h30m`.
///
/// An option of this type must pass `transform: DurationArgument.init(argument:)`, so that an error states what was
/// expected.
package struct DurationArgument: Sendable, CustomStringConvertible {
    package let duration: Duration

    /// The default TTL of a lease.
    package static let standardLease = DurationArgument(.seconds(30))
    /// No wait.
    package static let noWait = DurationArgument(.zero)

    package init(_ duration: Duration) {
        self.duration = duration
    }

    /// Parses an argument.
    /// - Throws: `InvalidConfigurationValue`, which the parser appends to the option's name.
    package init(argument: String) throws {
        duration = try DurationText.parse(argument)
    }

    package var milliseconds: Int64 { duration.wholeMilliseconds }

    package var description: String { DurationText.shortest(duration) }

    /// The description of this value as a default.
    fileprivate var defaultDescription: String { duration == .zero ? "do not wait" : description }
}

extension ArgumentHelp {
    /// Returns the help for an option that takes a duration.
    package static func duration(_ abstract: String, default standard: DurationArgument? = nil) -> ArgumentHelp {
        ArgumentHelp("\(abstract)\(standard.map { " (default: \($0.defaultDescription))" } ?? "")", valueName: "duration")
    }
}
