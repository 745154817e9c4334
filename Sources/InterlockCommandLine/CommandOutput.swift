/// The output of a command, as fields for programs and as a human-readable table.
package protocol CommandOutput: Encodable {
    /// The lines of the table, without a final line break.
    var table: String { get }
}
