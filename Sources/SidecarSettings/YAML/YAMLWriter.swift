internal import CLibYAML

/// Writes a tree as YAML: lists and mappings in block style, and all scalars that are not plain in double quotes.
final class YAMLWriter {
    private let emitter = UnsafeMutablePointer<yaml_emitter_t>.allocate(capacity: 1)
    private var output: [UInt8] = []

    private init() throws(YAMLError) {
        let isReady = yaml_emitter_initialize(emitter) == 1
        guard isReady else { throw .outOfMemory }
        yaml_emitter_set_unicode(emitter, 1)
        // Without a maximum width, each scalar stays on one line.
        yaml_emitter_set_width(emitter, -1)
        let this = Unmanaged.passUnretained(self).toOpaque()
        yaml_emitter_set_output(
            emitter,
            { this, bytes, count in
                guard let this, let bytes else { return 0 }
                Unmanaged<YAMLWriter>.fromOpaque(this).takeUnretainedValue()
                    .output.append(contentsOf: UnsafeBufferPointer(start: bytes, count: count))
                return 1
            }, this)
    }

    deinit {
        yaml_emitter_delete(emitter)
        emitter.deallocate()
    }

    /// Returns the YAML text of a tree.
    static func text(of node: YAMLNode) throws(YAMLError) -> String {
        let writer = try YAMLWriter()
        try writer.emit { yaml_stream_start_event_initialize(&$0, YAML_UTF8_ENCODING) }
        try writer.emit { yaml_document_start_event_initialize(&$0, nil, nil, nil, 1) }
        try writer.write(node)
        try writer.emit { yaml_document_end_event_initialize(&$0, 1) }
        try writer.emit { yaml_stream_end_event_initialize(&$0) }
        return String(decoding: writer.output, as: UTF8.self)
    }

    private func write(_ node: YAMLNode) throws(YAMLError) {
        switch node.content {
        case .scalar(let text, let isPlain):
            var bytes = Array(text.utf8)
            let style = isPlain ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE
            try emit { yaml_scalar_event_initialize(&$0, nil, nil, &bytes, CInt(bytes.count), 1, 1, style) }
        case .sequence(let elements):
            let style = elements.isEmpty ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE
            try emit { yaml_sequence_start_event_initialize(&$0, nil, nil, 1, style) }
            for element in elements { try write(element) }
            try emit { yaml_sequence_end_event_initialize(&$0) }
        case .mapping(let entries):
            let style = entries.isEmpty ? YAML_FLOW_MAPPING_STYLE : YAML_BLOCK_MAPPING_STYLE
            try emit { yaml_mapping_start_event_initialize(&$0, nil, nil, 1, style) }
            for entry in entries {
                try write(entry.key)
                try write(entry.value)
            }
            try emit { yaml_mapping_end_event_initialize(&$0) }
        }
    }

    private func emit(_ make: (inout yaml_event_t) -> CInt) throws(YAMLError) {
        var event = yaml_event_t()
        // The emitter frees the event, even if it fails.
        guard make(&event) == 1, yaml_emitter_emit(emitter, &event) == 1 else { throw .outOfMemory }
    }
}
