import InterlockCore

/// `log`: the level and format of messages on standard error.
package struct LogSettings: Sendable, Equatable {
    /// The least severe message that is written.
    package enum Level: String, CaseIterable, Sendable {
        case trace, debug, info, notice, warning, error, critical
    }

    /// The format of a message.
    package enum Format: String, CaseIterable, Sendable {
        /// logfmt, one line per message.
        case text
        /// JSON, one object and one line per message.
        case json
    }

    /// `log.level`: `info` by default.
    package var level = Level.info
    /// `log.format`: `text` by default.
    package var format = Format.text

    package init() {}
}

extension LogSettings {
    mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.read("level", into: &level) { $0.parsed(by: Level.init(parsing:)) }
            section.read("format", into: &format) { $0.parsed(by: Format.init(parsing:)) }
        }
    }
}
