enum StreamCommands {
    static let all: [Command] = [
        Command("xadd", -5, [.write, .needsMemory], .first, xadd),
        Command("xlen", 2, .read, .first) { (server, call) throws(CommandError) in
            .integer(Int64(try server.stream(call[1])?.entries.count ?? 0))
        },
        Command("xrange", -4, .read, .first) { (server, call) throws(CommandError) in
            try range(server, call, from: 2, to: 3) { $0 }
        },
        Command("xrevrange", -4, .read, .first) { (server, call) throws(CommandError) in
            try range(server, call, from: 3, to: 2) { $0.reversed() }
        },
    ]

    private static func xadd(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        let options = try AddOptions(call)
        guard let id = try nextID(server, call[1], options) else { return .null }
        try server.updateStream(call[1]) { stream in
            stream.append(StreamLog.Entry(id: id, fields: Array(call.arguments[options.firstField...])))
            if let length = options.maximumLength { stream.trim(to: length, isApproximate: options.isApproximate) }
        }
        server.signalChange(of: call[1])
        return .bulk(id.text)
    }

    /// Returns the ID of the new entry; `nil` if the stream does not exist and must not be created. This is a separate
    /// function so that no second reference to the stream exists when it changes.
    private static func nextID(
        _ server: SimulatedServer, _ key: Bytes, _ options: AddOptions
    ) throws(CommandError) -> StreamLog.ID? {
        if case .given(let id) = options.id, id == .zero {
            throw CommandError("ERR The ID specified in XADD must be greater than 0-0")
        }
        let stream = try server.stream(key)
        if options.onlyIfPresent, stream == nil { return nil }
        switch options.id {
        case .next:
            let now = UInt64(clamping: server.milliseconds)
            guard let next = (stream ?? StreamLog()).nextID(atMilliseconds: now) else { throw .idTooSmall }
            return next
        case .given(let id):
            guard id > stream?.lastID ?? .zero else { throw .idTooSmall }
            return id
        }
    }

    private static func range(
        _ server: SimulatedServer, _ call: Invocation, from low: Int, to high: Int,
        _ ordered: ([StreamLog.Entry]) -> [StreamLog.Entry]
    ) throws(CommandError) -> Reply {
        let start = try bound(call[low], sequence: 0)
        let end = try bound(call[high], sequence: .max)
        var count = Int64.max
        if call.count > 4 {
            guard call.count == 6, call[4].isWord("count") else { throw .syntax }
            count = max(0, try call.integer(5))
        }
        let entries = ordered(try server.stream(call[1])?.entries.filter { $0.id >= start && $0.id <= end } ?? [])
        return .array(
            entries.prefix(Int(clamping: count)).map { .array([.bulk($0.id.text), .bulks($0.fields)]) })
    }

    private static func bound(_ text: Bytes, sequence: UInt64) throws(CommandError) -> StreamLog.ID {
        if text.storage == [UInt8(ascii: "-")] { return .zero }
        if text.storage == [UInt8(ascii: "+")] { return .last }
        return try StreamLog.ID(text, sequence: sequence)
    }
}

/// The options between `XADD key` and the fields.
private struct AddOptions {
    enum ID {
        case next
        case given(StreamLog.ID)
    }

    var onlyIfPresent = false
    var maximumLength: Int?
    var isApproximate = false
    var id = ID.next
    /// The index of the first field.
    var firstField: Int

    init(_ call: Invocation) throws(CommandError) {
        var index = 2
        while index < call.count {
            if call[index].isWord("nomkstream") {
                onlyIfPresent = true
            } else if call[index].isWord("maxlen"), index + 1 < call.count {
                index += 1
                isApproximate = call[index].storage == [UInt8(ascii: "~")]
                if isApproximate || call[index].storage == [UInt8(ascii: "=")] { index += 1 }
                guard index < call.count else { throw .syntax }
                let count = try call.integer(index)
                guard count >= 0 else { throw CommandError("ERR The MAXLEN argument must be >= 0.") }
                maximumLength = Int(clamping: count)
            } else {
                break
            }
            index += 1
        }
        guard index < call.count else { throw .wrongNumberOfArguments("xadd") }
        if call[index].storage != [UInt8(ascii: "*")] { id = .given(try StreamLog.ID(call[index], sequence: 0)) }
        firstField = index + 1
        guard firstField < call.count, (call.count - firstField).isMultiple(of: 2) else {
            throw .wrongNumberOfArguments("xadd")
        }
    }
}

extension StreamLog.ID {
    /// Parses an ID.
    /// - Parameter sequence: the sequence if `text` has none.
    fileprivate init(_ text: Bytes, sequence: UInt64) throws(CommandError) {
        let parts = text.text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count <= 2, let first = UInt64(parts[0]), let second = parts.count == 2 ? UInt64(parts[1]) : sequence
        else { throw CommandError("ERR Invalid stream ID specified as stream command argument") }
        self.init(milliseconds: first, sequence: second)
    }
}

extension CommandError {
    fileprivate static let idTooSmall = CommandError(
        "ERR The ID specified in XADD is equal or smaller than the target stream top item")
}
