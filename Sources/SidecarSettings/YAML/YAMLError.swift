/// Why a text is not read.
enum YAMLError: Error {
    /// It is not YAML.
    case malformed(String, line: Int?)
    /// These keys stand in one mapping more than once, the first of them here.
    case repeatedKeys(Set<String>, line: Int?)
    /// It stands for more values than are read, counting what aliases repeat.
    case tooManyValues
    /// The texts that it stands for are longer together than what is read, counting what aliases repeat.
    case tooLong
    /// There is no more memory.
    case outOfMemory
}
