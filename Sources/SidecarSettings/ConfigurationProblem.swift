/// A mistake in a configuration: its location, and what was expected there.
package struct ConfigurationProblem: Hashable, Sendable, CustomStringConvertible {
    /// The origin of a setting.
    package enum Location: Hashable, Sendable {
        /// A file and the line, counted from 1; `nil` if the mistake concerns the whole file.
        case file(String, line: Int?)
        /// An environment variable.
        case variable(String)
        /// A command-line flag.
        case flag(String)
    }

    package var location: Location
    /// The path of the key, such as `services.catalog.limits[0].limit`; `nil` if the location is sufficient.
    package var path: String?
    /// The expected and the actual value. Never contains a secret.
    package var message: String

    /// The problem in one line: `interlock.yaml:7: services.catalog.limits[0].limit: expected a whole number of 1 or
    /// more, got "ten"`.
    package var description: String {
        let location =
            switch location {
            case .file(let name, let line?): "\(name):\(line)"
            case .file(let name, nil), .variable(let name), .flag(let name): name
            }
        return [location, path, message].compactMap(\.self).joined(separator: ": ")
    }
}
