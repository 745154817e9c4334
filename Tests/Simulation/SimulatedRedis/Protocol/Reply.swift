/// A command's reply, not yet encoded.
indirect enum Reply {
    case ok
    case status(Bytes)
    /// An error code and a message, without the leading minus.
    case error(Bytes)
    case integer(Int64)
    case bulk(Bytes)
    case null
    case array([Reply])
    /// Any number of consecutive replies, including none.
    case several([Reply])

    static func bulks(_ strings: some Sequence<Bytes>) -> Reply { .array(strings.map { .bulk($0) }) }

    static func boolean(_ value: Bool) -> Reply { .integer(value ? 1 : 0) }

    static func score(_ score: Double) -> Reply { .bulk(Bytes(score)) }

    /// Appends the reply as RESP2.
    func write(to output: inout [UInt8]) {
        switch self {
        case .ok: output.append(contentsOf: "+OK\r\n".utf8)
        case .status(let text): Self.write("+", text.storage, to: &output)
        case .error(let text):
            // Line breaks in a script's error would end the reply early.
            Self.write("-", text.storage.map { $0 == 10 || $0 == 13 ? 32 : $0 }, to: &output)
        case .integer(let number): Self.write(":", number, to: &output)
        case .bulk(let bytes):
            Self.write("$", Int64(bytes.count), to: &output)
            output.append(contentsOf: bytes.storage)
            output.append(contentsOf: "\r\n".utf8)
        case .null: output.append(contentsOf: "$-1\r\n".utf8)
        case .array(let replies):
            Self.write("*", Int64(replies.count), to: &output)
            for reply in replies { reply.write(to: &output) }
        case .several(let replies):
            for reply in replies { reply.write(to: &output) }
        }
    }

    private static func write(_ kind: Unicode.Scalar, _ line: [UInt8], to output: inout [UInt8]) {
        output.append(UInt8(ascii: kind))
        output.append(contentsOf: line)
        output.append(contentsOf: "\r\n".utf8)
    }

    private static func write(_ kind: Unicode.Scalar, _ number: Int64, to output: inout [UInt8]) {
        output.append(UInt8(ascii: kind))
        output.append(contentsOf: String(number).utf8)
        output.append(contentsOf: "\r\n".utf8)
    }
}

/// An error reply in Redis's wording: a code and a message.
struct CommandError: Error {
    /// The text without the leading minus.
    let text: Bytes

    init(_ text: String) {
        self.text = Bytes(text)
    }

    static let wrongType = CommandError("WRONGTYPE Operation against a key holding the wrong kind of value")
    static let syntax = CommandError("ERR syntax error")
    static let notAnInteger = CommandError("ERR value is not an integer or out of range")
    static let notAFloat = CommandError("ERR value is not a valid float")
    static let notAScoreBound = CommandError("ERR min or max is not a float")
    static let noScript = CommandError("NOSCRIPT No matching script. Please use EVAL.")
    static let loading = CommandError("LOADING Redis is loading the dataset in memory")
    static let readOnly = CommandError("READONLY You can't write against a read only replica.")
    static let outOfMemory = CommandError("OOM command not allowed when used memory > 'maxmemory'.")
    static let busy = CommandError(
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
    static let misconfigured = CommandError(
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may "
            + "modify the data set are disabled, because this instance is configured to report errors during writes if RDB "
            + "snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the "
            + "RDB error.")

    static func invalidExpiry(_ command: String) -> CommandError {
        CommandError("ERR invalid expire time in '\(command)' command")
    }

    static func wrongNumberOfArguments(_ command: String) -> CommandError {
        CommandError("ERR wrong number of arguments for '\(command)' command")
    }
}
