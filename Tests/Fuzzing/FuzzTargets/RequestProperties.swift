internal import Interlock
internal import InterlockCore
internal import SidecarListeners
internal import NIOCore
internal import RedisClient

/// The RESP API reads the same requests no matter how the bytes are split, and rejects each invalid one with one line.
enum RequestProperties {
    private static let table = RESPCommandTable()
    /// The maximum number of commands per input that are checked word by word.
    private static let maximumCommands = 20

    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        let reading = try ParsedRequests(Chunking.whole.chunks(of: input))
        // Each byte rescans the line, which takes quadratic time.
        let chunkings: [Chunking] = input.count <= 512 ? [.bytewise, .scattered] : [.scattered]
        for chunking in chunkings {
            let other = try ParsedRequests(chunking.chunks(of: input))
            try expect(other == reading, "whole: \(reading); \(chunking): \(other)")
        }
        // This check is slow, so only every sixteenth input gets it.
        if case .incomplete(let count) = reading.ending, count > 0, input.fnv % 16 == 0 {
            try checkLengthLimit(input.suffix(count))
        }
        // Thousands of empty words are slow and show nothing new.
        for command in reading.commands.prefix(maximumCommands) {
            try checkWords(command)
            try checkOptions(command)
            try checkEncoding(command)
        }
    }

    /// Checks that an incomplete command is completed or rejected before it exceeds the longest command.
    private static func checkLengthLimit(_ pending: ArraySlice<UInt8>) throws(FuzzFinding) {
        let filling = Array(repeating: UInt8(ascii: "x"), count: RESPRequestParser.maximumLineLength + 2)
        let reading = try ParsedRequests([pending, filling[...]])
        if case .incomplete(let count) = reading.ending {
            throw FuzzFinding("\(count) bytes are buffered of a command that begins with \(Array(pending))")
        }
    }

    private static func request(
        _ command: [[UInt8]], _ read: (RESPRequest) throws(FuzzFinding) -> Void
    ) throws(FuzzFinding) {
        var arguments: [Range<Int>] = []
        var bytes: [UInt8] = []
        for argument in command {
            arguments.append(bytes.count..<(bytes.count + argument.count))
            bytes += argument
        }
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(FuzzFinding) in try read(RESPRequest(bytes: bytes, arguments: arguments)) }
        }
        try result.get()
    }

    private static func checkWords(_ command: [[UInt8]]) throws(FuzzFinding) {
        try request(command) { request throws(FuzzFinding) in
            for index in 0..<request.count {
                let text = request.text(index)
                guard let integer = request.integer(index) else {
                    try expect(Int64(text).map { "\($0)" } != text, "the number \(text) was not read as one")
                    continue
                }
                try expect(Int64(text) == integer, "\(text) was read as \(integer)")
            }
            guard let entry = table[request.nameKey] else {
                try checkError("unknown command '\(Excerpt(request.text(0)))'")
                return
            }
            try expect(entry.name == request.text(0).uppercased(), "\(request.text(0)) was taken for \(entry.name)")
        }
    }

    /// Checks that options are parsed, or rejected with a valid error.
    private static func checkOptions(_ command: [[UInt8]]) throws(FuzzFinding) {
        try request(command) { request throws(FuzzFinding) in
            do throws(InterlockError) {
                let options = try RESPOptions(request, from: 1, allowed: RESPOptions.Option.allCases)
                for option in RESPOptions.Option.allCases {
                    _ = options.text(option)
                    _ = try options.name(option)
                    _ = try options.names(option)
                    _ = try options.milliseconds(option)
                }
                _ = try options.lockMode()
            } catch {
                guard error.code == .invalid else { throw FuzzFinding("options are rejected with \(error.code)") }
                try checkError(error.message)
            }
        }
    }

    /// Checks that an error is one short line, even if it quotes a client's text, so the text cannot pass for a reply.
    private static func checkError(_ message: String) throws(FuzzFinding) {
        try expect(message.utf8.count <= 2048, "an error has \(message.utf8.count) bytes")
        let writer = RESPWriter()
        writer.error("ERR", message)
        let replies = try ParsedReplies([Array(writer.buffer.contents.readableBytesView)[...]])
        guard replies.violation == nil, replies.replies.count == 1, case .error = replies.replies[0] else {
            throw FuzzFinding("an error was written as \(replies): \(message)")
        }
    }

    /// Checks that the RESP API reads back what our own client writes.
    private static func checkEncoding(_ command: [[UInt8]]) throws(FuzzFinding) {
        var encoder = CommandEncoder()
        for argument in command { encoder.append(argument) }
        var buffer = ByteBuffer()
        encoder.format(into: &buffer)
        let reading = try ParsedRequests([Array(buffer.readableBytesView)[...]])
        try expect(
            reading.commands == [command] && reading.ending == .incomplete(0), "\(command) was written and read as \(reading)")
    }
}

/// The result of the RESP API's parser for a stream that arrives in chunks, as on a connection.
struct ParsedRequests: Equatable {
    enum Ending: Equatable {
        /// The stream ended with this many bytes of an incomplete command.
        case incomplete(Int)
        case malformed(String)
        case http
    }

    /// The arguments of each command.
    private(set) var commands: [[[UInt8]]] = []
    private(set) var ending = Ending.incomplete(0)

    init(_ chunks: [ArraySlice<UInt8>]) throws(FuzzFinding) {
        var parser = RESPRequestParser()
        var pending: [UInt8] = []
        for chunk in chunks {
            pending += chunk
            guard try read(&pending, with: &parser) else { return }
        }
        ending = .incomplete(pending.count)
    }

    /// Parses the pending bytes. Returns `false` if the connection cannot continue.
    private mutating func read(_ pending: inout [UInt8], with parser: inout RESPRequestParser) throws(FuzzFinding) -> Bool {
        var start = 0
        defer { pending.removeFirst(start) }
        while start < pending.count {
            let outcome = pending[start...].withUnsafeBytes { parser.next($0) }
            switch outcome {
            case .command(let consumed):
                try expect((1...(pending.count - start)).contains(consumed), "a command has \(consumed) bytes")
                let words = parser.unquoted.isEmpty ? pending[start..<(start + consumed)] : parser.unquoted[...]
                commands.append(try arguments(parser.arguments, in: words))
                start += consumed
            case .empty(let consumed):
                try expect((1...(pending.count - start)).contains(consumed), "an empty command has \(consumed) bytes")
                start += consumed
            case .incomplete:
                try expect(
                    pending.count - start <= RESPRequestParser.Limits.usual.commandLength,
                    "\(pending.count - start) bytes are buffered for an incomplete command")
                return true
            case .malformed(let reason):
                ending = .malformed(reason)
                return false
            case .http:
                ending = .http
                return false
            }
        }
        return true
    }

    private func arguments(_ ranges: [Range<Int>], in command: ArraySlice<UInt8>) throws(FuzzFinding) -> [[UInt8]] {
        try expect(
            (1...RESPRequestParser.Limits.usual.arrayLength).contains(ranges.count),
            "a command has \(ranges.count) arguments")
        var arguments: [[UInt8]] = []
        var end = 0
        for range in ranges {
            try expect(
                range.lowerBound >= end && range.upperBound <= command.count, "an argument lies outside of its command: \(range)")
            try expect(
                range.count <= max(RESPRequestParser.Limits.usual.bulkLength, RESPRequestParser.maximumLineLength),
                "an argument has \(range.count) bytes")
            end = range.upperBound
            arguments.append(Array(command.dropFirst(range.lowerBound).prefix(range.count)))
        }
        return arguments
    }
}
