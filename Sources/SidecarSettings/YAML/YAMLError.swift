/// The reason why a text cannot be read as YAML.
enum YAMLError: Error {
    /// The text is not YAML.
    case malformed(String, line: Int?)
    /// A mapping contains these keys more than once. The line is that of the first one.
    case repeatedKeys(Set<String>, line: Int?)
    /// The text has too many values, with aliases expanded.
    case tooManyValues
    /// The values are too long in total, with aliases expanded.
    case tooLong
    /// Memory is exhausted.
    case outOfMemory
}
