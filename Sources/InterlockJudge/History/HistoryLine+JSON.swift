extension HistoryLine {
    /// Appends its JSON. A run records many thousand lines a second on its event loop, and `JSONEncoder` takes ten times as long.
    func write(into buffer: inout [UInt8]) {
        buffer.append(UInt8(ascii: "{"))
        write(.at, at, into: &buffer)
        write(.what, what, into: &buffer)
        write(.client, client, into: &buffer)
        write(.sidecar, sidecar, into: &buffer)
        write(.lock, lock, into: &buffer)
        write(.mode, mode, into: &buffer)
        write(.lease, lease, into: &buffer)
        write(.fence, fence, into: &buffer)
        write(.ttl, ttl, into: &buffer)
        write(.valid, valid, into: &buffer)
        write(.service, service, into: &buffer)
        write(.cost, cost, into: &buffer)
        write(.subject, subject, into: &buffer)
        write(.wait, wait, into: &buffer)
        write(.limit, limit, into: &buffer)
        write(.remaining, remaining, into: &buffer)
        write(.reset, reset, into: &buffer)
        write(.permit, permit, into: &buffer)
        write(.ok, ok, into: &buffer)
        write(.status, status, into: &buffer)
        write(.state, state, into: &buffer)
        write(.generation, generation, into: &buffer)
        write(.until, until, into: &buffer)
        write(.fault, fault, into: &buffer)
        write(.reason, reason, into: &buffer)
        write(.retry, retry, into: &buffer)
        write(.events, events, into: &buffer)
        // Behind each field stands a comma.
        buffer[buffer.count - 1] = UInt8(ascii: "}")
    }

    private func write(_ key: CodingKeys, _ value: (some BinaryInteger)?, into buffer: inout [UInt8]) {
        guard let value else { return }
        write(key, into: &buffer)
        var digits = value.magnitude
        if value < 0 { buffer.append(UInt8(ascii: "-")) }
        let start = buffer.count
        repeat {
            let (rest, digit) = digits.quotientAndRemainder(dividingBy: 10)
            buffer.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: digit))
            digits = rest
        } while digits > 0
        buffer[start...].reverse()
        buffer.append(UInt8(ascii: ","))
    }

    private func write(_ key: CodingKeys, _ value: Bool?, into buffer: inout [UInt8]) {
        guard let value else { return }
        write(key, into: &buffer)
        buffer.append(contentsOf: (value ? "true," : "false,").utf8)
    }

    private func write(_ key: CodingKeys, _ value: String?, into buffer: inout [UInt8]) {
        guard let value else { return }
        write(key, into: &buffer)
        buffer.append(UInt8(ascii: "\""))
        for byte in value.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                buffer.append(UInt8(ascii: "\\"))
                buffer.append(byte)
            case 0..<0x20:
                buffer.append(contentsOf: #"\u00"#.utf8)
                for digit in [byte >> 4, byte & 15] { buffer.append(digit < 10 ? 0x30 + digit : 0x57 + digit) }
            default:
                buffer.append(byte)
            }
        }
        buffer.append(contentsOf: "\",".utf8)
    }

    private func write(_ key: CodingKeys, into buffer: inout [UInt8]) {
        buffer.append(UInt8(ascii: "\""))
        buffer.append(contentsOf: key.rawValue.utf8)
        buffer.append(contentsOf: "\":".utf8)
    }
}
