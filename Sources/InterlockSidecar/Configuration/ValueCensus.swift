import Yams

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
