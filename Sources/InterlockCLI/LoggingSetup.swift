import InterlockSidecar
import Logging

/// Where this process' messages go: standard error, as the configuration says.
enum LoggingSetup {
    static func bootstrap(_ settings: LogSettings) {
        let level = Logger.Level(rawValue: settings.level.rawValue) ?? .info
        let format = settings.format
        LoggingSystem.bootstrap { label in
            var handler: any LogHandler =
                switch format {
                case .text: StreamLogHandler.standardError(label: label)
                case .json: JSONLogHandler(label: label)
                }
            handler.logLevel = level
            return handler
        }
    }
}
