import ArgumentParser
import InterlockCommandLine
import InterlockCore
import SidecarSettings

/// `interlock config`: shows the effective configuration of a sidecar, and the schema of configurations.
struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Show the effective configuration of a file, or the schema of configurations.",
        subcommands: [Show.self, Schema.self]
    )

    /// `interlock config show`: prints the effective configuration of a file.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a file's configuration with all defaults and overrides, without secrets.",
            discussion: """
                Reads the file and the environment's overrides as `interlock serve` does, but starts nothing and asks no \
                running sidecar. The digests are the ones that sidecars compare: one of all services, which `interlock fleet` \
                shows, and one of each service. If two sidecars differ, run this command on both hosts and compare.

                EXAMPLES
                  interlock config show /etc/interlock/interlock.yaml
                  diff <(interlock config show a.yaml) <(interlock config show b.yaml)
                """
        )

        @Argument(
            help: "The configuration file, in YAML; without it, the defaults and the environment's overrides.",
            completion: .file())
        var file: String?

        @OptionGroup var output: OutputOptions

        func run() async throws {
            let configuration: ShownConfiguration
            do {
                configuration = ShownConfiguration(
                    try EffectiveConfiguration(
                        try SidecarConfiguration.load(file: file, environment: ProcessEnvironment.variables)))
            } catch let error as ConfigurationError {
                throw CommandFailure(error)
            }
            try Terminal.show(configuration, asJSON: output.json)
        }
    }

    /// `interlock config schema`: prints the JSON Schema of configurations.
    struct Schema: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print the JSON Schema of the configuration, for editors.",
            discussion: """
                With it, editors complete keys and mark mistakes. It cannot express every rule, such as conflicts between \
                sections: run `interlock check-config` too. Editors that use yaml-language-server take it for files that \
                begin with the line `# yaml-language-server: $schema=interlock.schema.json`.

                EXAMPLES
                  interlock config schema > interlock.schema.json
                """
        )

        func run() throws {
            // `Terminal.show` adds the final line break.
            Terminal.show(String(ConfigurationSchema.text.dropLast()))
        }
    }
}

/// The output of a configuration: its YAML, with the digests that sidecars compare.
struct ShownConfiguration: CommandOutput {
    /// The digest of all services and domains.
    var configuration: String
    /// The digest of each service, and of each domain under `domain:NAME`.
    var services: [String: String]
    var yaml: String

    init(_ effective: EffectiveConfiguration) {
        configuration = effective.digest.combined
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
