/// A node of a YAML document. Its readers interpret the text of a scalar; tags are ignored.
struct YAMLNode {
    enum Content {
        /// A scalar; `isPlain` means that the document contains it without quotes.
        case scalar(String, isPlain: Bool)
        case sequence([YAMLNode])
        case mapping([Entry])
    }

    struct Entry {
        var key: YAMLNode
        var value: YAMLNode
    }

    var content: Content
    /// The line of the node, counted from 1; for an alias, the line of its anchor. `nil` if the node was not parsed.
    var line: Int?

    init(_ content: Content, line: Int? = nil) {
        self.content = content
        self.line = line
    }

    /// The text of a scalar; `nil` for a mapping or a list.
    var text: String? {
        if case .scalar(let text, _) = content { text } else { nil }
    }

    /// The text of a scalar without quotes; `nil` for any other node.
    var plainText: String? {
        if case .scalar(let text, isPlain: true) = content { text } else { nil }
    }
}
