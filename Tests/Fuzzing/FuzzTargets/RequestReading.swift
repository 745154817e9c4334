internal import InterlockSidecar

/// What the RESP door's parser makes of a stream that comes in chunks, read as a connection reads it.
struct RequestReading: Equatable {
    enum Ending: Equatable {
        /// The stream ended, with so many bytes that are not a whole command.
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

    /// - Returns: `false` when the connection cannot go on.
    private mutating func read(_ pending: inout [UInt8], with parser: inout RESPRequestParser) throws(FuzzFinding) -> Bool {
        var start = 0
        defer { pending.removeFirst(start) }
        while start < pending.count {
            let outcome = pending[start...].withUnsafeBytes { parser.next($0) }
            switch outcome {
            case .command(let consumed):
                try expect((1...(pending.count - start)).contains(consumed), "a command has \(consumed) bytes")
                commands.append(try arguments(parser.arguments, in: pending[start..<(start + consumed)]))
                start += consumed
            case .nothing(let consumed):
                try expect((1...(pending.count - start)).contains(consumed), "nothing has \(consumed) bytes")
                start += consumed
            case .incomplete:
                try expect(
                    pending.count - start <= RESPRequestParser.Bounds.usual.command,
                    "\(pending.count - start) bytes are kept for a command that is not whole")
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
            (1...RESPRequestParser.Bounds.usual.array).contains(ranges.count), "a command has \(ranges.count) arguments")
        var arguments: [[UInt8]] = []
        var end = 0
        for range in ranges {
            try expect(
                range.lowerBound >= end && range.upperBound <= command.count, "an argument lies outside of its command: \(range)")
            try expect(
                range.count <= max(RESPRequestParser.Bounds.usual.bulk, RESPRequestParser.longestLine),
                "an argument has \(range.count) bytes")
            end = range.upperBound
            arguments.append(Array(command.dropFirst(range.lowerBound).prefix(range.count)))
        }
        return arguments
    }
}
