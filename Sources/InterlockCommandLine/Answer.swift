/// The result of a command: fields for programs, a table for people.
package protocol Answer: Encodable {
    /// Lines without a last line end.
    var table: String { get }
}
