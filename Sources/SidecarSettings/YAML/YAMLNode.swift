/// A part of a YAML text: its values are texts, which their readers judge. Tags say nothing here.
struct YAMLNode {
    enum Content {
        /// `isPlain`: it was written without quotes.
        case scalar(String, isPlain: Bool)
        case sequence([YAMLNode])
        case mapping([Entry])
    }

    struct Entry {
        var key: YAMLNode
        var value: YAMLNode
    }

    var content: Content
    /// Where it was read, from 1; of an alias, where its anchor stands. `nil`: nowhere.
    var line: Int?

    init(_ content: Content, line: Int? = nil) {
        self.content = content
        self.line = line
    }

    /// What stands here when it is neither a mapping nor a list.
    var text: String? {
        if case .scalar(let text, _) = content { text } else { nil }
    }

    /// The same, where it is written without quotes.
    var plainText: String? {
        if case .scalar(let text, isPlain: true) = content { text } else { nil }
    }
}
