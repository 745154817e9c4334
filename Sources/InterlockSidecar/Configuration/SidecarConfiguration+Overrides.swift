extension SidecarConfiguration {
    /// Settings from outside the file; `nil` leaves the file's.
    public struct Overrides: Sendable, Equatable {
        /// `--redis`, `INTERLOCK_REDIS_URL`: as `redis.url`.
        public var redisURL: String?
        /// `--resp`, `INTERLOCK_RESP`: as `listen.resp`.
        public var resp: String?
        /// `--http`, `INTERLOCK_HTTP`: as `listen.http`.
        public var http: String?
        /// `--unix`, `INTERLOCK_UNIX`: as `listen.unix`.
        public var unix: String?
        /// `--data-dir`, `INTERLOCK_DATA_DIR`: the folder of the embedded Redis.
        public var dataDirectory: String?
        /// `INTERLOCK_LOG_LEVEL`: as `log.level`. The command line `interlock` has no flag for it.
        public var logLevel: String?

        public init(
            redisURL: String? = nil,
            resp: String? = nil,
            http: String? = nil,
            unix: String? = nil,
            dataDirectory: String? = nil
        ) {
            self.redisURL = redisURL
            self.resp = resp
            self.http = http
            self.unix = unix
            self.dataDirectory = dataDirectory
        }

        /// A variable that is set but empty counts as not set: that is how container tools pass one that nobody gave. Not so the
        /// Redis, without which each host would lock for itself.
        init(environment: [String: String]) {
            func variable(_ setting: Setting) -> String? {
                environment[setting.variable].flatMap { $0.isEmpty ? nil : $0 }
            }
            self.init(
                redisURL: environment[Setting.redisURL.variable],
                resp: variable(.resp),
                http: variable(.http),
                unix: variable(.unix),
                dataDirectory: variable(.dataDirectory)
            )
            logLevel = variable(.logLevel)
        }

        /// What can be said outside the file, with its flag's name.
        enum Setting: String, CaseIterable {
            case redisURL = "--redis"
            case resp = "--resp"
            case http = "--http"
            case unix = "--unix"
            case dataDirectory = "--data-dir"
            case logLevel = "--log-level"

            var variable: String {
                switch self {
                case .redisURL: "INTERLOCK_REDIS_URL"
                case .resp: "INTERLOCK_RESP"
                case .http: "INTERLOCK_HTTP"
                case .unix: "INTERLOCK_UNIX"
                case .dataDirectory: "INTERLOCK_DATA_DIR"
                case .logLevel: "INTERLOCK_LOG_LEVEL"
                }
            }
        }

        static func variable(_ setting: Setting) -> ConfigurationProblem.Place { .variable(setting.variable) }
        static func flag(_ setting: Setting) -> ConfigurationProblem.Place { .flag(setting.rawValue) }
    }

    /// Lays `overrides` over what is there; mistakes name the variable or the flag.
    mutating func apply(
        _ overrides: Overrides,
        from place: (Overrides.Setting) -> ConfigurationProblem.Place,
        _ findings: ConfigurationFindings
    ) {
        func parsed<Parsed>(
            _ text: String?,
            _ setting: Overrides.Setting,
            _ parse: (String) throws(ConfigurationExpectation) -> Parsed
        ) -> Parsed? {
            guard let text else { return nil }
            do {
                return try parse(text)
            } catch {
                findings.refuse(at: place(setting), path: nil, error.message(got: ConfigurationValue.quoted(text)))
                return nil
            }
        }
        func endpoint(_ text: String?, _ setting: Overrides.Setting, _ path: String) -> SocketEndpoint? {
            let endpoint = parsed(text, setting, SocketEndpoint.init(parsing:))
            if endpoint != nil { findings.places[path] = place(setting) }
            return endpoint
        }
        redis.url = parsed(overrides.redisURL, .redisURL, RedisSettings.checkedURL) ?? redis.url
        listen.resp = endpoint(overrides.resp, .resp, ListenSettings.respPath) ?? listen.resp
        listen.http = endpoint(overrides.http, .http, ListenSettings.httpPath) ?? listen.http
        listen.unix = parsed(overrides.unix, .unix, ListenSettings.checkedSocketPath) ?? listen.unix
        dataDirectory = parsed(overrides.dataDirectory, .dataDirectory, Self.checkedFolder) ?? dataDirectory
        log.level = parsed(overrides.logLevel, .logLevel, LogSettings.Level.init(parsing:)) ?? log.level
    }

    private static func checkedFolder(_ path: String) throws(ConfigurationExpectation) -> String {
        guard !path.isEmpty else { throw ConfigurationExpectation("the path of a folder") }
        return path
    }
}
