/// The result of a command: fields for programs, a table for people.
package protocol Answer: Encodable {
    /// The lines of the table, without a trailing line end.
    var table: String { get }
}
