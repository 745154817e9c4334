import InterlockCore

extension SidecarConfiguration {
    /// Reads a configuration: the file, then the environment over it, then the flags over both.
    ///
    /// - Parameters:
    ///   - file: The path of a YAML file of at most 1 MiB; `nil`: no file, all defaults.
    ///   - environment: The process's variables: the overrides, and those that `auth.keys[].key_env` names.
    ///   - flags: What the command line said.
    /// - Throws: `ConfigurationError` with every mistake found, not only the first.
    public static func load(
        file: String?,
        environment: [String: String],
        flags: Overrides = Overrides()
    ) throws(ConfigurationError) -> SidecarConfiguration {
        guard let file else { return try load(yaml: "", fileName: "", environment: environment, flags: flags) }
        let text = try ConfigurationFile(path: file).text()
        return try load(yaml: text, fileName: file, environment: environment, flags: flags)
    }

    /// Reads a configuration from text in memory; otherwise as `load(file:environment:flags:)`.
    ///
    /// - Parameters:
    ///   - yaml: The text of the file. Empty: all defaults.
    ///   - fileName: What error messages call the file.
    public static func load(
        yaml: String,
        fileName: String,
        environment: [String: String] = [:],
        flags: Overrides = Overrides()
    ) throws(ConfigurationError) -> SidecarConfiguration {
        let findings = ConfigurationFindings(fileName: fileName)
        var configuration = SidecarConfiguration()
        if let root = try ConfigurationFile(path: fileName).compose(yaml) {
            let value = ConfigurationValue(node: root, path: "", findings: findings)
            configuration.read(value, environment: environment)
        }
        configuration.apply(Overrides(environment: environment), from: Overrides.variable, findings)
        configuration.apply(flags, from: Overrides.flag, findings)
        configuration.warnOfMistakes(in: environment, named: findings.variables, findings)
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
            section.read("auth") { auth in
                auth.concealed().section { auth in
                    auth.read("keys") { keys = APIKey.list($0.concealed(), environment: environment) }
                }
            }
            section.read("locks") { locks.read($0) }
            section.read("fleet_size", into: &fleetSize) { $0.wholeNumber(in: Self.fleetSizes) }
            section.read("services") { services = ServiceDefinition.list($0) }
        }
    }

    private static let fleetSizes = 1...10_000
}
