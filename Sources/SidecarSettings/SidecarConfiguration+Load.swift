internal import Interlock
import InterlockCore

extension SidecarConfiguration {
    /// Reads a configuration from a file. The environment overrides the file, and the flags override both.
    ///
    /// - Parameters:
    ///   - file: the path of a YAML file of at most 1 MiB; `nil` for all defaults.
    ///   - environment: the process's variables: the overrides, and those that the file names.
    ///   - flags: the settings from the command line.
    /// - Throws: `ConfigurationError` with every mistake found.
    package static func load(
        file: String?,
        environment: [String: String],
        flags: Overrides = Overrides()
    ) throws(ConfigurationError) -> SidecarConfiguration {
        guard let file else { return try load(yaml: "", fileName: "", environment: environment, flags: flags) }
        let yaml = try ConfigurationFile(path: file).text()
        return try load(yaml: yaml, fileName: file, environment: environment, flags: flags)
    }

    /// Reads and checks a file like `load(file:environment:flags:)`. The result must not be run.
    /// - Parameters:
    ///   - file: the path of the file; `-` for standard input.
    ///   - readsSecrets: whether the secrets that the file names, in variables and files, must be present.
    package static func check(
        file: String, environment: [String: String], readsSecrets: Bool
    ) throws(ConfigurationError) -> SidecarConfiguration {
        let source = ConfigurationFile(path: file == "-" ? "standard input" : file)
        let yaml = try file == "-" ? source.textOfStandardInput() : source.text()
        var configuration = try load(
            yaml: yaml, fileName: source.path, environment: environment, readsSecrets: readsSecrets)
        if !readsSecrets { configuration.redis.removeFileReferences() }
        return configuration
    }

    /// Reads a configuration from a text. In all other respects, behaves like `load(file:environment:flags:)`.
    ///
    /// - Parameters:
    ///   - yaml: the text of the file; empty for all defaults.
    ///   - fileName: the name of the file in error messages.
    ///   - readsSecrets: whether secrets in variables and files are read. If false, the result can be checked but not
    ///     run.
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
        configuration.warnAboutMistakes(in: environment, named: findings.variables, findings)
        if let url = flags.redisURL, "\(RedactedURL(url))" != url {
            findings.warn(
                "the password in --redis is visible to everyone who can list processes; use INTERLOCK_REDIS_URL, redis.url_env or "
                    + "redis.password_file instead")
        }
        configuration.rejectUnguardedListeners(findings)
        configuration.rejectUnsupportedQuorum(findings)
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
            section.read("fleet_size", into: &fleetSize) { $0.wholeNumber(in: InterlockConfiguration.fleetSizeRange) }
            section.read("services") { services = ServiceDefinition.list($0) }
            section.read("rate_limits") { domains.read(domains: $0) }
            section.read("rls") { domains.read(service: $0) }
            section.ignoreExtensions()
        }
    }
}

extension SidecarConfiguration {
    /// Settings from outside the file; `nil` keeps the file's value.
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
        /// `--data-dir`, `INTERLOCK_DATA_DIR`: the data directory of the embedded Redis.
        package var dataDirectory: String?
        /// `INTERLOCK_LOG_LEVEL`: as `log.level`. `interlock serve` has no flag for it.
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

        /// Reads the overrides from environment variables. An empty variable counts as unset, because container tools
        /// pass unset values that way. An empty INTERLOCK_REDIS_URL is kept and rejected later, because a sidecar
        /// without a shared Redis would grant locks that exclude only this host.
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

        /// The settings that can be given outside the file.
        enum Setting: CaseIterable {
            case redisURL, resp, http, unix, unixMode, unixGroup, dataDirectory, logLevel

            /// The flag of the setting; `nil` if it has only a variable.
            var flag: String? {
                switch self {
                case .redisURL: "--redis"
                case .resp: "--resp"
                case .http: "--http"
                case .unix: "--unix"
                case .unixMode: "--unix-mode"
                case .unixGroup: "--unix-group"
                case .dataDirectory: "--data-dir"
                case .logLevel: nil
                }
            }

            /// The environment variable of the setting.
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

        static func variable(_ setting: Setting) -> ConfigurationProblem.Location { .variable(setting.variable) }
        static func flag(_ setting: Setting) -> ConfigurationProblem.Location {
            setting.flag.map { .flag($0) } ?? variable(setting)
        }
    }

    /// Applies `overrides` to this configuration. Mistakes are reported at the variable or the flag.
    mutating func apply(
        _ overrides: Overrides,
        from location: (Overrides.Setting) -> ConfigurationProblem.Location,
        _ findings: ConfigurationFindings
    ) {
        func parsed<Parsed>(
            _ text: String?,
            _ setting: Overrides.Setting,
            _ parse: (String) throws(InvalidConfigurationValue) -> Parsed
        ) -> Parsed? {
            guard let text else { return nil }
            do {
                return try parse(text)
            } catch {
                findings.reject(at: location(setting), path: nil, error.message(got: ConfigurationValue.quoted(text)))
                return nil
            }
        }
        func endpoint(_ text: String?, _ setting: Overrides.Setting, _ path: String) -> SocketEndpoint? {
            let endpoint = parsed(text, setting, SocketEndpoint.init(parsing:))
            if endpoint != nil { findings.locations[path] = location(setting) }
            return endpoint
        }
        if let url = parsed(overrides.redisURL, .redisURL, RedisSettings.checkedURL) {
            redis.url = url
            // A server that is set outside the file replaces the private one.
            redis.isExplicitlyEmbedded = false
        }
        listen.resp = endpoint(overrides.resp, .resp, ListenSettings.respPath) ?? listen.resp
        listen.http = endpoint(overrides.http, .http, ListenSettings.httpPath) ?? listen.http
        listen.unix = parsed(overrides.unix, .unix, ListenSettings.checkedSocketPath) ?? listen.unix
        listen.unixMode = parsed(overrides.unixMode, .unixMode, SocketMode.init(parsing:)) ?? listen.unixMode
        listen.unixGroup =
            findings.readsSecrets
            ? parsed(overrides.unixGroup, .unixGroup, ListenSettings.checkedGroup) ?? listen.unixGroup
            : overrides.unixGroup ?? listen.unixGroup
        dataDirectory = parsed(overrides.dataDirectory, .dataDirectory, Self.checkedDirectory) ?? dataDirectory
        log.level = parsed(overrides.logLevel, .logLevel, LogSettings.Level.init(parsing:)) ?? log.level
    }

    private static func checkedDirectory(_ path: String) throws(InvalidConfigurationValue) -> String {
        guard !path.isEmpty else { throw InvalidConfigurationValue("the path of a directory") }
        return path
    }
}
