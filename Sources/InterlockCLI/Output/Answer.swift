/// What a command found out: fields for programs, a table for people.
protocol Answer: Encodable {
    /// Lines without a last line end.
    var table: String { get }
}
