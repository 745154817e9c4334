/// What a `MisbehavingRedis` does about a command.
public enum ScriptedAnswer: Hashable, Sendable {
    /// Nothing; the connection stays open.
    case silence
    /// Writes these bytes at once.
    case bytes([UInt8])
    /// Writes these bytes one at a time, each in a packet of its own as far as the kernel goes along.
    case oneByOne([UInt8])
    /// Writes these bytes and hangs up.
    case bytesThenClose([UInt8])

    /// Hangs up.
    public static let close = ScriptedAnswer.bytesThenClose([])

    /// Writes this text at once.
    public static func text(_ text: String) -> ScriptedAnswer {
        .bytes(Array(text.utf8))
    }
}
