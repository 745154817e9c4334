import ArgumentParser
import InterlockCommandLine
import InterlockCore
import InterlockSidecar
import SidecarSettings

/// `interlock check-config`: checks a configuration file without starting a sidecar.
struct CheckConfig: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a configuration file.",
        discussion: """
            Reads the file as `interlock serve` does, including environment overrides and API keys, but starts nothing. \
            Prints each mistake on one line of standard error, with its location and what was expected, and exits with 1. With \
            --without-secrets, the variables and files that hold keys, passwords and URLs may be missing.

            EXAMPLES
              interlock check-config interlock.yaml
              helm template … | yq … | interlock check-config --without-secrets -
              interlock check-config interlock.yaml --json | jq -r '.problems[].message'
            """
    )

    @Argument(help: "The configuration file, in YAML; - reads standard input.", completion: .file())
    var file: String

    @Flag(help: "Do not read secrets from variables and other files.")
    var withoutSecrets = false

    @OptionGroup var output: OutputOptions

    func run() async throws {
        let verdict = ConfigurationVerdict(
            file: file, environment: ProcessEnvironment.variables, readsSecrets: !withoutSecrets)
        if output.json {
            Terminal.show(try JSONOutput.text(verdict))
        } else {
            if verdict.isGood { Terminal.show(([verdict.table] + verdict.notes).joined(separator: "\n")) }
            for warning in verdict.warnings { Terminal.report("\(verdict.file): warning: \(warning)") }
            for problem in verdict.problems { Terminal.report(problem.description) }
        }
        guard verdict.isGood else { throw ExitCode(.no) }
    }
}

/// The result of checking a configuration file, with all problems found.
struct ConfigurationVerdict: CommandOutput {
    /// A mistake in the configuration.
    struct Problem: Encodable {
        /// The line in the file; `nil` if the mistake has no line, or is outside the file.
        var line: Int?
        /// The path of the key.
        var path: String?
        var message: String
        /// The location, path and message as one human-readable line.
        var description: String

        private enum CodingKeys: String, CodingKey {
            case line, path, message
        }
    }

    var file: String
    var services = 0
    var domains = 0
    var warnings: [String] = []
    /// The consequences of settings that the file does not make obvious.
    var notes: [String] = []
    var problems: [Problem] = []

    private enum CodingKeys: String, CodingKey {
        case file, services, domains, warnings, notes, problems
        case isGood = "good"
    }

    var isGood: Bool { problems.isEmpty }

    /// Reads and checks the file without starting anything.
    init(file: String, environment: [String: String], readsSecrets: Bool) {
        self.file = file == "-" ? "standard input" : file
        do throws(ConfigurationError) {
            let configuration = try SidecarConfiguration.check(
                file: file, environment: environment, readsSecrets: readsSecrets)
            services = configuration.services.count
            domains = configuration.domains.definitions.count
            warnings = configuration.warnings + [configuration.embeddedRedisWarning].compactMap { $0 }
            let needed = configuration.locks.waitReplicas
            if needed > 0 {
                notes.append(
                    "locks.wait_replicas \(needed) preserves locks in a failover if the primary has at most \(needed) "
                        + "replica\(needed == 1 ? "" : "s"); with more, a failover can promote a replica that has not received a lock"
                )
            }
            if let url = configuration.redis.url { check(redisURL: url, of: configuration) }
        } catch {
            problems = error.problems.map { Problem($0) }
        }
    }

    /// Checks the whole URL of Redis, because reading the file checks only the scheme.
    private mutating func check(redisURL: String, of configuration: SidecarConfiguration) {
        do throws(SidecarError) {
            _ = try configuration.coordinatorConfiguration(redisURL: redisURL)
        } catch {
            problems.append(Problem(message: error.description, description: "\(file): \(error)"))
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(file, forKey: .file)
        try container.encode(isGood, forKey: .isGood)
        try container.encode(services, forKey: .services)
        try container.encode(domains, forKey: .domains)
        try container.encode(warnings, forKey: .warnings)
        try container.encode(notes, forKey: .notes)
        try container.encode(problems, forKey: .problems)
    }

    var table: String {
        "\(file): good, \(services) \(services == 1 ? "service" : "services")"
            + (domains == 0 ? "" : ", \(domains) \(domains == 1 ? "domain" : "domains")")
    }
}

extension ConfigurationVerdict.Problem {
    fileprivate init(_ problem: ConfigurationProblem) {
        var line: Int?
        if case .file(_, let location) = problem.location { line = location }
        self.init(line: line, path: problem.path, message: problem.message, description: problem.description)
    }
}
