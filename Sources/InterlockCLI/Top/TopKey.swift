import InterlockCommandLine

/// A key press.
enum TopKey: Equatable {
    case character(Character)
    case enter, back, erase, up, down, pageUp, pageDown, home, end, tab

    private static let sequences: [(String, TopKey)] = [
        ("\u{1B}[A", .up), ("\u{1B}[B", .down), ("\u{1B}OA", .up), ("\u{1B}OB", .down), ("\u{1B}[5~", .pageUp),
        ("\u{1B}[6~", .pageDown), ("\u{1B}[H", .home), ("\u{1B}[F", .end), ("\u{1B}[1~", .home), ("\u{1B}[4~", .end),
    ]

    /// Returns the keys that the bytes of one read encode. Skips unknown sequences.
    static func keys(_ bytes: [UInt8]) -> [TopKey] {
        var text = String(decoding: bytes, as: UTF8.self)[...]
        var keys: [TopKey] = []
        while let first = text.first {
            if let (sequence, key) = sequences.first(where: { text.hasPrefix($0.0) }) {
                keys.append(key)
                text = text.dropFirst(sequence.count)
                continue
            }
            text = text.dropFirst()
            switch first {
            case "\u{1B}":
                guard text.first == "[" || text.first == "O" else {
                    keys.append(.back)
                    continue
                }
                // A sequence ends with a letter or a tilde.
                text = text.dropFirst().drop { !$0.isLetter && $0 != "~" }.dropFirst()
            case "\r", "\n": keys.append(.enter)
            case "\t": keys.append(.tab)
            case "\u{7F}", "\u{08}": keys.append(.erase)
            default: if first.unicodeScalars.allSatisfy({ !$0.isUnprintable }) { keys.append(.character(first)) }
            }
        }
        return keys
    }
}
