/// One mistake in a configuration: where it is, and what was expected there.
package struct ConfigurationProblem: Hashable, Sendable, CustomStringConvertible {
    /// Where a setting came from.
    package enum Place: Hashable, Sendable {
        /// A file, and the line counted from 1; `nil` when the mistake is the file itself.
        case file(String, line: Int?)
        /// An environment variable.
        case variable(String)
        /// A flag of the command line.
        case flag(String)
    }

    package var place: Place
    /// The key, such as `services.catalog.limits[0].limit`; `nil` when the place says it all.
    package var path: String?
    /// What was expected, and what was there instead. Never holds a secret.
    package var message: String

    /// `interlock.yaml:7: services.catalog.limits[0].limit: expected a whole number of 1 or more, got "ten"`
    package var description: String {
        let place =
            switch place {
            case .file(let name, let line?): "\(name):\(line)"
            case .file(let name, nil), .variable(let name), .flag(let name): name
            }
        return [place, path, message].compactMap(\.self).joined(separator: ": ")
    }
}
