internal import Glibc

/// Random bits for tokens and permits, drawn from the kernel's generator in blocks: one system call for many tokens.
struct EntropyPool {
    private static let blockSize = 512

    private var block = [UInt64](repeating: 0, count: Self.blockSize)
    private var next = Self.blockSize

    /// 64 bits that nobody can guess.
    mutating func draw() -> UInt64 {
        if next == Self.blockSize {
            refill()
            next = 0
        }
        defer { next += 1 }
        return block[next]
    }

    mutating func drawPair() -> (UInt64, UInt64) { (draw(), draw()) }

    private mutating func refill() {
        block.withUnsafeMutableBytes { bytes in
            var filled = 0
            while filled < bytes.count {
                let count = min(bytes.count - filled, 256)
                let result = getentropy(bytes.baseAddress.map { $0 + filled }, count)
                // It fails only for a bad address or more than 256 bytes; neither can be.
                precondition(result == 0, "the kernel's random generator failed")
                filled += count
            }
        }
    }
}
