internal import FoundationEssentials
internal import Glibc

/// A configuration file, which is parsed from YAML into a tree of nodes.
struct ConfigurationFile {
    let path: String
    private static let maximumBytes = 1 << 20
    private static let maximumValues = 100_000
    /// The maximum total size of all scalars after expanding aliases, in bytes.
    private static let maximumExpandedBytes = 16 << 20
    /// The maximum number of repeated keys that a message names.
    private static let maximumShownKeys = 3

    /// Whether the current user may read the file.
    var isReadable: Bool { FileManager.default.isReadableFile(atPath: path) }

    /// Returns the content of the file.
    /// - Throws: `ConfigurationError` if the file cannot be read or is not UTF-8.
    func text() throws(ConfigurationError) -> String {
        let bytes: Data
        do {
            bytes = try Data(contentsOf: URL(filePath: path))
        } catch let error as CocoaError where error.code == .fileReadNoSuchFile {
            throw refusal(nil, "there is no such file")
        } catch let error as CocoaError where error.code == .fileReadNoPermission {
            throw refusal(nil, "this user may not read the file")
        } catch {
            throw refusal(nil, "the file cannot be read")
        }
        return try text(of: bytes)
    }

    /// Returns the content of standard input. Stops reading once it exceeds the size limit of a file.
    /// - Throws: `ConfigurationError` if standard input cannot be read or is not UTF-8.
    func textOfStandardInput() throws(ConfigurationError) -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while bytes.count <= Self.maximumBytes {
            let count = read(STDIN_FILENO, &buffer, buffer.count)
            if count == 0 { break }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw refusal(nil, "cannot be read: \(String(cString: strerror(errno)))") }
            bytes += buffer.prefix(count)
        }
        return try text(of: bytes)
    }

    private func text(of bytes: some Sequence<UInt8>) throws(ConfigurationError) -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw refusal(nil, "expected UTF-8 text") }
        return text
    }

    /// Parses YAML into a tree. Returns `nil` if the text contains no value.
    /// - Throws: `ConfigurationError` if the text is not valid YAML or exceeds a limit. Values are not checked.
    func compose(_ yaml: String) throws(ConfigurationError) -> YAMLNode? {
        guard yaml.utf8.count <= Self.maximumBytes else { throw refusal(nil, "expected a file of at most 1 MiB") }
        do throws(YAMLError) {
            // Some editors on Windows write a byte order mark before the text.
            let yaml = yaml.unicodeScalars.first == "\u{FEFF}" ? String(yaml.unicodeScalars.dropFirst()) : yaml
            return try YAMLReader.read(yaml, limits: .init(values: Self.maximumValues, bytes: Self.maximumExpandedBytes))
        } catch {
            throw refusal(error)
        }
    }

    /// Describes a YAML error. Quotes keys, but no values, because a value may be a secret.
    private func refusal(_ error: YAMLError) -> ConfigurationError {
        switch error {
        case .malformed(let problem, let line):
            return refusal(line, "invalid YAML: \(problem)")
        case .repeatedKeys(let repeatedKeys):
            let shownKeys = repeatedKeys.prefix(Self.maximumShownKeys).map { key in
                let lines = [key.first, key.second].compactMap(\.self).map { "\($0)" }.joined(separator: " and ")
                return "\(ConfigurationValue.quoted(key.key)) (lines \(lines))"
            }
            let noun = repeatedKeys.count == 1 ? "key" : "keys"
            let hiddenCount = repeatedKeys.count - shownKeys.count
            let ending = hiddenCount > 0 ? " and \(hiddenCount) more" : ""
            return refusal(
                repeatedKeys.first?.first,
                "duplicate \(noun): \(shownKeys.joined(separator: ", "))\(ending); set each key once")
        case .tooManyValues:
            return refusal(nil, "expected at most \(Self.maximumValues) values after expanding aliases")
        case .tooLong:
            return refusal(nil, "expected at most \(Self.maximumExpandedBytes >> 20) MiB of text after expanding aliases")
        case .outOfMemory:
            return refusal(nil, "not enough memory to parse the file")
        }
    }

    private func refusal(_ line: Int?, _ message: String) -> ConfigurationError {
        ConfigurationError(problems: [.init(location: .file(path, line: line), path: nil, message: message)])
    }
}
