internal import CLibYAML

/// Parses a YAML text into a tree. Expands aliases, limits the size of the result, and rejects duplicate keys.
struct YAMLReader {
    /// The maximum nesting depth, because readers of the tree are recursive.
    private static let maximumLevels = 64

    private let events: YAMLEvents
    private let limits: Size
    private var size = Size()
    /// The anchored nodes by name, with their expanded sizes.
    private var anchors: [String: (node: YAMLNode, size: Size)] = [:]

    struct Size {
        var values = 0
        /// The total length of all scalars.
        var bytes = 0
    }

    private init(_ text: String, limits: Size) throws(YAMLError) {
        events = try YAMLEvents(of: text)
        self.limits = limits
    }

    /// Returns the tree of the only document in `text`; `nil` if the text contains no document.
    static func read(_ text: String, limits: Size) throws(YAMLError) -> YAMLNode? {
        var reader = try YAMLReader(text, limits: limits)
        var root: YAMLNode?
        while let event = try reader.events.next() {
            switch event.kind {
            case .document where root != nil:
                throw .malformed("expected one document, found another", line: event.line)
            case .document, .end: continue
            case .alias, .scalar, .sequence, .mapping: root = try reader.node(event, level: 1)
            }
        }
        return root
    }

    private mutating func node(_ event: YAMLEvents.Event, level: Int) throws(YAMLError) -> YAMLNode {
        guard level <= Self.maximumLevels else {
            throw .malformed("lists and mappings are nested more than \(Self.maximumLevels) levels deep", line: event.line)
        }
        let startSize = size
        let content: YAMLNode.Content
        switch event.kind {
        case .alias(let name):
            guard let anchor = anchors[name] else { throw .malformed("undefined alias", line: event.line) }
            try count(anchor.size)
            return anchor.node
        case .scalar(let text, let isPlain):
            try count(Size(bytes: text.utf8.count))
            content = .scalar(text, isPlain: isPlain)
        case .sequence: content = .sequence(try elements(level: level))
        case .mapping: content = .mapping(try entries(level: level))
        case .document, .end: throw .malformed("expected a value", line: event.line)
        }
        try count(Size(values: 1))
        let node = YAMLNode(content, line: event.line)
        if let anchor = event.anchor {
            anchors[anchor] = (node, Size(values: size.values - startSize.values, bytes: size.bytes - startSize.bytes))
        }
        return node
    }

    /// Adds to the size of the tree, and checks the limits.
    private mutating func count(_ added: Size) throws(YAMLError) {
        size.values += added.values
        size.bytes += added.bytes
        guard size.values <= limits.values else { throw .tooManyValues }
        guard size.bytes <= limits.bytes else { throw .tooLong }
    }

    private mutating func elements(level: Int) throws(YAMLError) -> [YAMLNode] {
        var elements: [YAMLNode] = []
        while let event = try events.next(), event.kind != .end { elements.append(try node(event, level: level + 1)) }
        return elements
    }

    private mutating func entries(level: Int) throws(YAMLError) -> [YAMLNode.Entry] {
        var entries: [YAMLNode.Entry] = []
        while let event = try events.next(), event.kind != .end {
            let key = try node(event, level: level + 1)
            guard let next = try events.next() else { break }
            entries.append(YAMLNode.Entry(key: key, value: try node(next, level: level + 1)))
        }
        try Self.rejectDuplicates(entries)
        return entries
    }

    /// Rejects duplicate keys, quoted or not. Keys that are lists or mappings are rejected by the readers of the tree.
    private static func rejectDuplicates(_ entries: [YAMLNode.Entry]) throws(YAMLError) {
        var firstLines: [String: Int?] = [:]
        var repeatedKeys: [YAMLError.RepeatedKey] = []
        var reportedKeys: Set<String> = []
        for entry in entries {
            guard let key = entry.key.text else { continue }
            if let firstLine = firstLines[key] {
                guard reportedKeys.insert(key).inserted else { continue }
                repeatedKeys.append(.init(key: key, first: firstLine, second: entry.key.line))
            } else {
                firstLines.updateValue(entry.key.line, forKey: key)
            }
        }
        guard repeatedKeys.isEmpty else { throw .repeatedKeys(repeatedKeys) }
    }
}

/// The events that libyaml emits for a text.
private final class YAMLEvents {
    struct Event {
        enum Kind: Equatable {
            case document
            case alias(String)
            case scalar(String, isPlain: Bool)
            case sequence, mapping
            /// The end of a list, a mapping or a document.
            case end
        }

        var kind: Kind
        var anchor: String?
        var line: Int
    }

    private let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
    private let bytes: UnsafeMutableBufferPointer<UInt8>

    init(of text: String) throws(YAMLError) {
        bytes = .allocate(capacity: text.utf8.count)
        _ = bytes.initialize(from: text.utf8)
        let isReady = yaml_parser_initialize(parser) == 1
        guard isReady else { throw .outOfMemory }
        yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        yaml_parser_set_input_string(parser, bytes.baseAddress, bytes.count)
    }

    deinit {
        yaml_parser_delete(parser)
        parser.deallocate()
        bytes.deallocate()
    }

    /// Returns the next event; `nil` at the end of the text.
    func next() throws(YAMLError) -> Event? {
        while true {
            var event = yaml_event_t()
            guard yaml_parser_parse(parser, &event) == 1 else { throw failure() }
            defer { yaml_event_delete(&event) }
            let line = Int(event.start_mark.line) + 1
            switch event.type {
            case YAML_STREAM_START_EVENT: continue
            case YAML_DOCUMENT_START_EVENT: return Event(kind: .document, line: line)
            case YAML_ALIAS_EVENT: return Event(kind: .alias(Self.text(event.data.alias.anchor)), line: line)
            case YAML_SCALAR_EVENT:
                let scalar = event.data.scalar
                let text = String(decoding: UnsafeBufferPointer(start: scalar.value, count: scalar.length), as: UTF8.self)
                return Event(
                    kind: .scalar(text, isPlain: scalar.style == YAML_PLAIN_SCALAR_STYLE),
                    anchor: scalar.anchor.map(Self.text), line: line)
            case YAML_SEQUENCE_START_EVENT:
                return Event(kind: .sequence, anchor: event.data.sequence_start.anchor.map(Self.text), line: line)
            case YAML_MAPPING_START_EVENT:
                return Event(kind: .mapping, anchor: event.data.mapping_start.anchor.map(Self.text), line: line)
            case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT, YAML_DOCUMENT_END_EVENT: return Event(kind: .end, line: line)
            default: return nil
            }
        }
    }

    private static func text(_ characters: UnsafeMutablePointer<yaml_char_t>) -> String {
        String(decodingCString: UnsafePointer(characters), as: UTF8.self)
    }

    /// Returns whether the character at a position is a tab. Lines and columns are counted from 0, in characters.
    private func isTab(line: Int, column: Int) -> Bool {
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        guard lines.indices.contains(line) else { return false }
        return String(decoding: lines[line], as: UTF8.self).unicodeScalars.dropFirst(column).first == "\t"
    }

    /// Returns the error that the parser has found.
    private func failure() -> YAMLError {
        let state = parser.pointee
        guard state.error != YAML_MEMORY_ERROR, let problem = state.problem else { return .outOfMemory }
        let message = [state.context, problem].compactMap { $0.map { String(cString: $0) } }.joined(separator: ", ")
        guard state.error == YAML_READER_ERROR else {
            let line = Int(state.problem_mark.line)
            guard message.hasSuffix("found character that cannot start any token") else {
                return .malformed(message, line: line + 1)
            }
            let hasTab = isTab(line: line, column: Int(state.problem_mark.column))
            return .malformed(
                hasTab ? "found a tab; indent with spaces" : "found a value that begins with @, `, %, | or >; put it in quotes",
                line: line + 1)
        }
        let line = 1 + bytes.prefix(Int(state.problem_offset)).count { $0 == UInt8(ascii: "\n") }
        return .malformed(message, line: line)
    }
}
