/// A stream. Redis keeps entries in nodes of up to 100 entries and 4096 bytes, and `MAXLEN ~` drops only whole nodes.
/// This type therefore tracks each node's size in Redis's encoding.
struct StreamLog: Sendable {
    struct ID: Comparable, Sendable {
        var milliseconds: UInt64
        var sequence: UInt64

        static let zero = ID(milliseconds: 0, sequence: 0)
        static let last = ID(milliseconds: .max, sequence: .max)

        var text: Bytes { Bytes("\(milliseconds)-\(sequence)") }

        /// The next ID; `nil` if this is the last one.
        var next: ID? {
            if sequence < .max { return ID(milliseconds: milliseconds, sequence: sequence + 1) }
            return milliseconds < .max ? ID(milliseconds: milliseconds + 1, sequence: 0) : nil
        }

        static func < (left: ID, right: ID) -> Bool {
            (left.milliseconds, left.sequence) < (right.milliseconds, right.sequence)
        }
    }

    struct Entry: Sendable {
        var id: ID
        /// The alternating names and values.
        var fields: [Bytes]
    }

    private struct Node: Sendable {
        var id: ID
        var names: [Bytes]
        var entryCount = 0
        var byteCount: Int
    }

    private static let maximumNodeEntries = 100
    private static let maximumNodeBytes = 4096
    /// The maximum number of entries that one approximate trim drops.
    private static let trimLimit = 100 * maximumNodeEntries

    private(set) var entries: [Entry] = []
    private(set) var lastID = ID.zero
    private var nodes: [Node] = []

    /// Returns the ID that `*` generates now. IDs do not decrease if the clock is set back.
    func nextID(atMilliseconds milliseconds: UInt64) -> ID? {
        milliseconds > lastID.milliseconds ? ID(milliseconds: milliseconds, sequence: 0) : lastID.next
    }

    /// Appends an entry, whose ID must be above `lastID`.
    mutating func append(_ entry: Entry) {
        let names = stride(from: 0, to: entry.fields.count, by: 2).map { entry.fields[$0] }
        let length = entry.fields.reduce(0) { $0 + $1.count }
        if nodes.last.map({ $0.byteCount + length >= Self.maximumNodeBytes || $0.entryCount >= Self.maximumNodeEntries }
        ) ?? true {
            // The node has a header of six bytes, the end marker, three numbers, the names and a zero.
            let byteCount = 7 + 4 * 2 + names.reduce(0) { $0 + ListPack.size(of: $1) }
            nodes.append(Node(id: entry.id, names: names, byteCount: byteCount))
        }
        var node = nodes.removeLast()
        node.entryCount += 1
        node.byteCount += Self.size(of: entry, names: names, in: node)
        nodes.append(node)
        entries.append(entry)
        lastID = entry.id
    }

    private static func size(of entry: Entry, names: [Bytes], in node: Node) -> Int {
        let hasNames = names != node.names
        let written = stride(from: hasNames ? 0 : 1, to: entry.fields.count, by: hasNames ? 1 : 2)
        let numbers =
            [
                Int64(hasNames ? 0 : 2), Int64(bitPattern: entry.id.milliseconds &- node.id.milliseconds),
                Int64(bitPattern: entry.id.sequence &- node.id.sequence),
                Int64(3 + names.count + (hasNames ? names.count + 1 : 0)),
            ] + (hasNames ? [Int64(names.count)] : [])
        return written.reduce(0) { $0 + ListPack.size(of: entry.fields[$1]) }
            + numbers.reduce(0) { $0 + ListPack.size(of: $1) }
    }

    /// Drops the oldest entries until `length` remain. An approximate trim drops only whole nodes.
    mutating func trim(to length: Int, isApproximate: Bool) {
        var droppedCount = 0
        while let node = nodes.first, entries.count - droppedCount > length {
            if isApproximate, droppedCount + node.entryCount > Self.trimLimit { break }
            if entries.count - droppedCount - node.entryCount >= length {
                droppedCount += node.entryCount
                nodes.removeFirst()
            } else if isApproximate {
                break
            } else {
                // The entries remain in the node, marked as deleted.
                nodes[0].entryCount -= entries.count - droppedCount - length
                droppedCount = entries.count - length
            }
        }
        entries.removeFirst(droppedCount)
    }
}

/// The sizes of elements in Redis's listpacks: the encoding plus the back length.
private enum ListPack {
    static func size(of number: Int64) -> Int {
        switch number {
        case 0...127: 2
        case -4096...4095: 3
        case -32768...32767: 4
        case -8_388_608...8_388_607: 5
        case -2_147_483_648...2_147_483_647: 6
        default: 10
        }
    }

    static func size(of bytes: Bytes) -> Int {
        if let number = bytes.integer { return size(of: number) }
        let encoded = bytes.count + (bytes.count < 64 ? 1 : bytes.count < 4096 ? 2 : 5)
        return encoded + (encoded < 128 ? 1 : encoded < 16383 ? 2 : encoded < 2_097_151 ? 3 : 4)
    }
}
