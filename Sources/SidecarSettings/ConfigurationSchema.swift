/// The JSON Schema of the configuration, for editors. The parser has further rules, such as conflicts between sections.
package enum ConfigurationSchema {
    /// The schema, as `interlock config schema` prints it.
    package static var text: String { String(decoding: PackageResources.configuration_schema_json, as: UTF8.self) }
}
