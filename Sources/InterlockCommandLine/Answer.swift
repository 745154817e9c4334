/// The result of a command, as fields for programs and as a human-readable table.
package protocol Answer: Encodable {
    /// The lines of the table, without a trailing line end.
    var table: String { get }
}
