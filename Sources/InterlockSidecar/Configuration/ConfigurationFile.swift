internal import Glibc
import Yams

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A file that configuration is read from: a YAML text on its way to a tree of nodes.
struct ConfigurationFile {
    let path: String
    private static let mostBytes = 1 << 20
    private static let mostValues = 100_000

    /// Whether this user may read it.
    var isReadable: Bool { FileManager.default.isReadableFile(atPath: path) }

    /// The file's text.
    /// - Throws: when it cannot be read or is not UTF-8.
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

    /// The text that comes through standard input. What is longer than a file may be is not read to its end.
    /// - Throws: when it cannot be read or is not UTF-8.
    func textOfStandardInput() throws(ConfigurationError) -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while bytes.count <= Self.mostBytes {
            let count = read(STDIN_FILENO, &buffer, buffer.count)
            if count == 0 { break }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw refusal(nil, "it cannot be read: \(String(cString: strerror(errno)))") }
            bytes += buffer.prefix(count)
        }
        return try text(of: bytes)
    }

    private func text(of bytes: some Sequence<UInt8>) throws(ConfigurationError) -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw refusal(nil, "expected text in UTF-8") }
        return text
    }

    /// The tree that `yaml` stands for; `nil` when it says nothing.
    /// - Throws: what is wrong with it as YAML. Values are not looked at.
    func compose(_ yaml: String) throws(ConfigurationError) -> Node? {
        guard yaml.utf8.count <= Self.mostBytes else { throw refusal(nil, "expected a file of at most 1 MiB") }
        let count = try withRoot(of: ValueCensus.withoutAliases(yaml)) { root in
            var census = ValueCensus(most: Self.mostValues)
            return root.map { census.count($0) } ?? 0
        }
        guard count <= Self.mostValues else {
            throw refusal(nil, "expected at most \(Self.mostValues) values, counting what aliases repeat")
        }
        return try withRoot(of: yaml) { $0 }
    }

    private func withRoot<Result>(of yaml: String, _ read: (Node?) -> Result) throws(ConfigurationError) -> Result {
        do {
            // Without rules for tags, `yes` and `1e3` stay the text they are; the readers of values judge them.
            let parser = try Parser(yaml: yaml, resolver: .basic, encoding: .utf8)
            // The nodes' anchors are the parser's, and go with it.
            return try withExtendedLifetime(parser) { read(try $0.singleRoot()) }
        } catch let error as YamlError {
            throw refusal(error)
        } catch {
            throw refusal(nil, "expected YAML")
        }
    }

    /// Leaves out the line itself, which Yams would show: it may hold a secret.
    private func refusal(_ error: YamlError) -> ConfigurationError {
        switch error {
        case .scanner(let context, let problem, let mark, _), .parser(let context, let problem, let mark, _),
            .composer(let context, let problem, let mark, _):
            let explanation = [context?.text, problem].compactMap(\.self).joined(separator: ", ")
            return refusal(mark.line, "not YAML: \(explanation)")
        case .reader(let problem, let offset, _, let yaml):
            let line = offset.map { yaml.prefix($0).count(where: \.isNewline) + 1 }
            return refusal(line, "not YAML: \(problem)")
        case .duplicatedKeysInMapping(let duplicates, let context):
            let keys = Set(duplicates.map(ValueCensus.original)).sorted().map(ConfigurationValue.quoted).joined(separator: ", ")
            return refusal(context.mark.line, "expected every key once, got \(keys) again further down in the same mapping")
        default:
            return refusal(nil, "not YAML")
        }
    }

    private func refusal(_ line: Int?, _ message: String) -> ConfigurationError {
        ConfigurationError(problems: [.init(place: .file(path, line: line), path: nil, message: message)])
    }
}

/// Counts the values that a YAML text stands for when its aliases are written out: each repeats all that its anchor has, which
/// may be aliases again, so that a small text can stand for more values than there is time to look at.
///
/// Yams puts the anchors' values in place of their aliases and then compares the keys of each mapping with all they have. So
/// the text is counted before, with something else in the place of aliases.
struct ValueCensus {
    /// Higher counts are not told apart.
    let most: Int
    /// By the anchor's name.
    private var counts: [String: Int] = [:]

    /// Takes the place of the `*` that begins an alias, wherever one stands: what was an alias is then a text. For private
    /// use, so that no file is likely to have it.
    private static let mark: Unicode.Scalar = "\u{E000}"

    init(most: Int) {
        self.most = most
    }

    /// The same text without aliases, as `count(_:)` wants it.
    static func withoutAliases(_ yaml: String) -> String {
        String(String.UnicodeScalarView(yaml.unicodeScalars.map { $0 == "*" ? mark : $0 }))
    }

    /// What the file says, of a text out of the one without aliases.
    static func original(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { $0 == mark ? "*" : $0 }))
    }

    /// How many values `node` stands for, itself included; at most one more than `most`. O(n) in nodes.
    mutating func count(_ node: Node) -> Int {
        var count = 1
        switch node {
        case .scalar(let scalar): add(aliases(in: scalar.string), to: &count)
        case .sequence(let sequence):
            for element in sequence { add(self.count(element), to: &count) }
        case .mapping(let mapping):
            for (key, value) in mapping {
                add(self.count(key), to: &count)
                add(self.count(value), to: &count)
            }
        case .alias: break
        }
        if let anchor = node.anchor { counts[anchor.rawValue] = count }
        return count
    }

    private func add(_ more: Int, to count: inout Int) {
        count = min(count + more, most + 1)
    }

    /// What the aliases in a text stand for. Where an asterisk was none of an alias, this is too high rather than too low.
    private func aliases(in text: String) -> Int {
        var count = 0
        for part in text.unicodeScalars.split(separator: Self.mark, omittingEmptySubsequences: false).dropFirst() {
            let name = part.prefix { scalar in
                switch scalar {
                case "a"..."z", "A"..."Z", "0"..."9", "_", "-": true
                default: false
                }
            }
            add(counts[String(name)] ?? 0, to: &count)
        }
        return count
    }
}
