/// Random bits for tokens and permits, drawn from the system's generator in blocks: one system call for many tokens.
struct EntropyPool {
    private static let blockSize = 256

    private var block: [UInt64] = []

    /// 64 bits that nobody can guess.
    mutating func next() -> UInt64 {
        if let value = block.popLast() { return value }
        var generator = SystemRandomNumberGenerator()
        block = (0..<Self.blockSize).map { _ in generator.next() }
        return generator.next()
    }

    mutating func nextPair() -> (UInt64, UInt64) { (next(), next()) }
}
