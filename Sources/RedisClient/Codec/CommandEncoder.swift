internal import CHiredis
package import NIOCore

/// Collects the arguments of one command and formats them with hiredis. Reuses its buffers, so that it stops allocating
/// after a few commands.
package struct CommandEncoder {
    private var bytes: [UInt8] = []
    /// The end offset of each argument in `bytes`.
    private var ends: [Int] = []
    private var pointers: [UnsafePointer<CChar>?] = []
    private var lengths: [Int] = []
    /// The offsets in `bytes` at which to insert the server's time.
    private var timeOffsets: [Int] = []

    package init() {}

    /// The value that is sent if the connection does not know the server's time.
    package static let unknownServerTime = "0000000000000000"

    /// Whether the collected command carries the server's time.
    var carriesServerTime: Bool { !timeOffsets.isEmpty }

    /// Appends the server's time at the moment of sending: 16 digits of Unix time in microseconds.
    ///
    /// Use it only for commands that a replica rejects or answers with an integer below 1: any other reply is taken as
    /// proof that the server is a primary.
    package mutating func appendServerTime() {
        timeOffsets.append(bytes.count)
        append(Self.unknownServerTime)
    }

    /// Appends text as one argument, in UTF-8.
    package mutating func append(_ argument: String) {
        write(argument)
        ends.append(bytes.count)
    }

    /// Appends one argument that consists of several parts, without concatenating them first.
    package mutating func append(parts first: String, _ second: String, _ third: String, _ fourth: String = "") {
        write(first)
        write(second)
        write(third)
        write(fourth)
        ends.append(bytes.count)
    }

    /// Appends text to the current argument. Copying it as one buffer takes half as long as appending its UTF-8 view.
    private mutating func write(_ text: String) {
        var text = text
        text.withUTF8 { bytes.append(contentsOf: $0) }
    }

    /// Appends bytes as one argument.
    package mutating func append(_ argument: [UInt8]) {
        bytes.append(contentsOf: argument)
        ends.append(bytes.count)
    }

    /// Appends a number as one argument, in decimal.
    package mutating func append(_ argument: Int64) {
        var magnitude = argument.magnitude
        if argument < 0 { bytes.append(UInt8(ascii: "-")) }
        let start = bytes.count
        repeat {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: magnitude % 10))
            magnitude /= 10
        } while magnitude > 0
        bytes[start...].reverse()
        ends.append(bytes.count)
    }

    /// Appends a number as one argument, in decimal.
    package mutating func append(_ argument: Int) {
        append(Int64(argument))
    }

    /// Returns the hash slot of the key at this index among the arguments; the command's name has index 0.
    func slot(ofArgument index: Int) -> HashSlot {
        HashSlot(ofKey: bytes[ends[index - 1]..<ends[index]])
    }

    /// Discards the collected command.
    mutating func clear() {
        bytes.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
        timeOffsets.removeAll(keepingCapacity: true)
    }

    /// Writes the collected command to `buffer` as RESP and discards it.
    /// - Parameter serverTimeMicroseconds: the server's clock reading as Unix time in microseconds; `nil` if unknown.
    package mutating func format(into buffer: inout ByteBuffer, serverTimeMicroseconds: Int64? = nil) {
        defer { clear() }
        if let serverTimeMicroseconds {
            for start in timeOffsets { write(serverTimeMicroseconds, from: start) }
        }
        var target: UnsafeMutablePointer<CChar>?
        let length = bytes.withUnsafeBytes { storage -> Int in
            pointers.removeAll(keepingCapacity: true)
            lengths.removeAll(keepingCapacity: true)
            var start = 0
            for end in ends {
                // `bytes` is never empty here: every command has a name.
                pointers.append(storage.baseAddress.map { ($0 + start).assumingMemoryBound(to: CChar.self) })
                lengths.append(end - start)
                start = end
            }
            return Int(redisFormatCommandArgv(&target, Int32(ends.count), &pointers, &lengths))
        }
        guard let target, length >= 0 else {
            preconditionFailure("hiredis could not format a command: out of memory")
        }
        buffer.writeBytes(UnsafeRawBufferPointer(start: target, count: length))
        redisFreeCommand(target)
    }

    private mutating func write(_ microseconds: Int64, from start: Int) {
        var remaining = microseconds
        for index in stride(from: start + Self.unknownServerTime.utf8.count - 1, through: start, by: -1) {
            bytes[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: remaining % 10)
            remaining /= 10
        }
    }
}
