internal import Hiredis

/// Random bits for tokens and permits, drawn from their source in blocks: one system call for many tokens.
struct EntropyPool: RandomNumberGenerator {
    private static let blockSize = 512

    private let source: RandomSource
    private var block = [UInt64](repeating: 0, count: Self.blockSize)
    private var position = Self.blockSize

    init(source: RandomSource) {
        self.source = source
    }

    /// 64 bits that nobody can guess.
    mutating func next() -> UInt64 {
        if position == Self.blockSize {
            source.fill(&block)
            position = 0
        }
        defer { position += 1 }
        return block[position]
    }

    mutating func drawPair() -> (UInt64, UInt64) { (next(), next()) }
}
