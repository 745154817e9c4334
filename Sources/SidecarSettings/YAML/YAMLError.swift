/// The reason why a text cannot be read as YAML.
enum YAMLError: Error {
    /// The text is not YAML.
    case malformed(String, line: Int?)
    /// A mapping contains these keys more than once: at least one key, in the order of the text.
    case repeatedKeys([RepeatedKey])
    /// The text has too many values, with aliases expanded.
    case tooManyValues
    /// The values are too long in total, with aliases expanded.
    case tooLong
    /// The parser could not allocate memory.
    case outOfMemory

    /// A key that a mapping contains more than once, and the lines of its first two occurrences.
    struct RepeatedKey {
        var key: String
        var first: Int?
        var second: Int?
    }
}
