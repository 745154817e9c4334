import ArgumentParser
import InterlockCommandLine
import InterlockCore
import SidecarSettings

/// `interlock config`: shows the effective configuration of a sidecar.
struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Show the configuration that is in force.",
        subcommands: [Show.self]
    )

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a file's configuration with all defaults and overrides, without secrets.",
            discussion: """
                Reads what `interlock serve` would, the environment's overrides included, and starts nothing. The digests are \
                those that sidecars compare: of all services, as `interlock fleet` shows it, and of each. Run it on the hosts of \
                two sidecars that differ, and compare.

                EXAMPLES
                  interlock config show /etc/interlock/interlock.yaml
                  diff <(interlock config show a.yaml) <(interlock config show b.yaml)
                """
        )

        @Argument(help: "Configuration in YAML; none: the defaults and the environment's overrides.", completion: .file())
        var file: String?

        @OptionGroup var output: OutputOptions

        func run() async throws {
            let shown: ShownConfiguration
            do {
                shown = ShownConfiguration(
                    try EffectiveConfiguration(
                        try SidecarConfiguration.load(file: file, environment: ProcessEnvironment.variables)))
            } catch let error as ConfigurationError {
                throw Failure(error.description, .usage)
            }
            try Terminal.show(shown, asJSON: output.json)
        }
    }
}

/// A configuration as YAML, with the digests that sidecars compare.
struct ShownConfiguration: Answer {
    /// The digest of all services and domains.
    var configuration: String
    /// The digest of each service, and of each domain under `domain:NAME`.
    var services: [String: String]
    var yaml: String

    init(_ effective: EffectiveConfiguration) {
        configuration = effective.digest.whole
        services = effective.digest.services
        yaml = effective.yaml
    }

    var table: String {
        let digests = services.sorted { $0.key < $1.key }.map { name, digest in
            name.hasPrefix(ConfigurationDigest.domainPrefix)
                ? "# domain \(name.dropFirst(ConfigurationDigest.domainPrefix.count).printable) \(digest)"
                : "# service \(name.printable) \(digest)"
        }
        return (["# configuration \(configuration)"] + digests).joined(separator: "\n") + "\n"
            + yaml.split(separator: "\n").map { String($0).printable }.joined(separator: "\n")
    }
}
