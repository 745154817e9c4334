internal import Interlock
import InterlockCore

extension SidecarConfiguration {
    /// Reads a configuration: the file, then the environment over it, then the flags over both.
    ///
    /// - Parameters:
    ///   - file: The path of a YAML file of at most 1 MiB; `nil`: no file, all defaults.
    ///   - environment: The process's variables: the overrides, and those that `auth.keys[].key_env` names.
    ///   - flags: What the command line said.
    /// - Throws: `ConfigurationError` with every mistake found, not only the first.
    package static func load(
        file: String?,
        environment: [String: String],
        flags: Overrides = Overrides()
    ) throws(ConfigurationError) -> SidecarConfiguration {
        guard let file else { return try load(yaml: "", fileName: "", environment: environment, flags: flags) }
        let text = try ConfigurationFile(path: file).text()
        return try load(yaml: text, fileName: file, environment: environment, flags: flags)
    }

    /// Reads a file as `load(file:environment:flags:)` does, only to check it.
    /// - Parameters:
    ///   - file: `-`: standard input.
    ///   - readsSecrets: whether the secrets that it names, in variables and files, have to be there.
    package static func check(
        file: String, environment: [String: String], readsSecrets: Bool
    ) throws(ConfigurationError) -> SidecarConfiguration {
        let source = ConfigurationFile(path: file == "-" ? "standard input" : file)
        let text = try file == "-" ? source.textOfStandardInput() : source.text()
        var configuration = try load(
            yaml: text, fileName: source.path, environment: environment, readsSecrets: readsSecrets)
        if !readsSecrets { configuration.redis.forgetFiles() }
        return configuration
    }

    /// Reads a configuration from text in memory; otherwise as `load(file:environment:flags:)`.
    ///
    /// - Parameters:
    ///   - yaml: The text of the file. Empty: all defaults.
    ///   - fileName: What error messages call the file.
    ///   - readsSecrets: `false`: only for a check. Secrets that are elsewhere, in variables and files, are not looked for; what
    ///     comes of it cannot be run.
    package static func load(
        yaml: String,
        fileName: String,
        environment: [String: String] = [:],
        flags: Overrides = Overrides(),
        readsSecrets: Bool = true
    ) throws(ConfigurationError) -> SidecarConfiguration {
        let findings = ConfigurationFindings(fileName: fileName, readsSecrets: readsSecrets)
        var configuration = SidecarConfiguration()
        if let root = try ConfigurationFile(path: fileName).compose(yaml) {
            let value = ConfigurationValue(node: root, path: "", findings: findings)
            configuration.read(value, environment: environment)
        }
        configuration.apply(Overrides(environment: environment), from: Overrides.variable, findings)
        configuration.apply(flags, from: Overrides.flag, findings)
        configuration.warnOfMistakes(in: environment, named: findings.variables, findings)
        if let url = flags.redisURL, "\(RedactedURL(url))" != url {
            findings.warn(
                "--redis shows its password to everyone who may list processes; set INTERLOCK_REDIS_URL, redis.url_env or "
                    + "redis.password_file instead")
        }
        configuration.refuseUnguardedListeners(findings)
        configuration.refuseUnsupportedQuorum(findings)
        configuration.warnings = findings.warnings
        guard findings.problems.isEmpty else { throw ConfigurationError(problems: findings.problemsInOrder) }
        return configuration
    }

    private mutating func read(_ value: ConfigurationValue, environment: [String: String]) {
        value.section { section in
            section.read("redis") { redis.read($0, environment: environment) }
            section.read("listen") { listen.read($0) }
            section.read("log") { log.read($0) }
            section.readOptional("tracing", into: &tracing) { TracingSettings(reading: $0) }
            section.read("auth") { auth in
                auth.concealed().section { auth in
                    auth.read("keys") { keys = APIKey.list($0.concealed(), environment: environment) }
                }
            }
            section.read("locks") { locks.read($0) }
            section.read("fleet_size", into: &fleetSize) { $0.wholeNumber(in: InterlockConfiguration.fleetSizes) }
            section.read("services") { services = ServiceDefinition.list($0) }
            section.read("rate_limits") { domains.read(domains: $0) }
            section.read("rls") { domains.read(service: $0) }
        }
    }
}

extension SidecarConfiguration {
    /// Settings from outside the file; `nil` leaves the file's.
    package struct Overrides: Sendable, Equatable {
        /// `--redis`, `INTERLOCK_REDIS_URL`: as `redis.url`.
        package var redisURL: String?
        /// `--resp`, `INTERLOCK_RESP`: as `listen.resp`.
        package var resp: String?
        /// `--http`, `INTERLOCK_HTTP`: as `listen.http`.
        package var http: String?
        /// `--unix`, `INTERLOCK_UNIX`: as `listen.unix`.
        package var unix: String?
        /// `--unix-mode`, `INTERLOCK_UNIX_MODE`: as `listen.unix_mode`.
        package var unixMode: String?
        /// `--unix-group`, `INTERLOCK_UNIX_GROUP`: as `listen.unix_group`.
        package var unixGroup: String?
        /// `--data-dir`, `INTERLOCK_DATA_DIR`: the folder of the embedded Redis.
        package var dataDirectory: String?
        /// `INTERLOCK_LOG_LEVEL`: as `log.level`. The command line `interlock` has no flag for it.
        package var logLevel: String?

        package init(
            redisURL: String? = nil,
            resp: String? = nil,
            http: String? = nil,
            unix: String? = nil,
            unixMode: String? = nil,
            unixGroup: String? = nil,
            dataDirectory: String? = nil
        ) {
            self.redisURL = redisURL
            self.resp = resp
            self.http = http
            self.unix = unix
            self.unixMode = unixMode
            self.unixGroup = unixGroup
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
                unixMode: variable(.unixMode),
                unixGroup: variable(.unixGroup),
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
            case unixMode = "--unix-mode"
            case unixGroup = "--unix-group"
            case dataDirectory = "--data-dir"
            case logLevel = "--log-level"

            var variable: String {
                switch self {
                case .redisURL: "INTERLOCK_REDIS_URL"
                case .resp: "INTERLOCK_RESP"
                case .http: "INTERLOCK_HTTP"
                case .unix: "INTERLOCK_UNIX"
                case .unixMode: "INTERLOCK_UNIX_MODE"
                case .unixGroup: "INTERLOCK_UNIX_GROUP"
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
        if let url = parsed(overrides.redisURL, .redisURL, RedisSettings.checkedURL) {
            redis.url = url
            // A server that was named outside the file takes the place of the private one.
            redis.isEmbeddedOnPurpose = false
        }
        listen.resp = endpoint(overrides.resp, .resp, ListenSettings.respPath) ?? listen.resp
        listen.http = endpoint(overrides.http, .http, ListenSettings.httpPath) ?? listen.http
        listen.unix = parsed(overrides.unix, .unix, ListenSettings.checkedSocketPath) ?? listen.unix
        listen.unixMode = parsed(overrides.unixMode, .unixMode, SocketMode.init(parsing:)) ?? listen.unixMode
        listen.unixGroup =
            findings.readsSecrets
            ? parsed(overrides.unixGroup, .unixGroup, ListenSettings.checkedGroup) ?? listen.unixGroup
            : overrides.unixGroup ?? listen.unixGroup
        dataDirectory = parsed(overrides.dataDirectory, .dataDirectory, Self.checkedFolder) ?? dataDirectory
        log.level = parsed(overrides.logLevel, .logLevel, LogSettings.Level.init(parsing:)) ?? log.level
    }

    private static func checkedFolder(_ path: String) throws(ConfigurationExpectation) -> String {
        guard !path.isEmpty else { throw ConfigurationExpectation("the path of a folder") }
        return path
    }
}
