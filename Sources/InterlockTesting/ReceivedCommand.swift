/// A command that a `MisbehavingRedis` received.
public struct ReceivedCommand: Hashable, Sendable {
    /// The number of the connection it came by; the first is 0.
    public var connection: Int
    /// Its number on that connection; the first is 0.
    public var index: Int
    /// The command's name and its arguments.
    public var words: [[UInt8]]

    public init(connection: Int, index: Int, words: [[UInt8]]) {
        self.connection = connection
        self.index = index
        self.words = words
    }

    /// The words as text; bytes that are not UTF-8 are replaced.
    public var text: [String] { words.map { String(decoding: $0, as: UTF8.self) } }
}
