internal import Glibc

/// A source of random numbers that can be passed as a value.
package struct RandomSource: RandomNumberGenerator, Sendable {
    private let fillBytes: @Sendable (UnsafeMutableRawBufferPointer) -> Void

    /// Creates a source.
    /// - Parameter fill: fills the buffer with uniformly distributed bits.
    package init(fill: @escaping @Sendable (UnsafeMutableRawBufferPointer) -> Void) {
        fillBytes = fill
    }

    /// The kernel's generator, which is unpredictable.
    package static let system = RandomSource { bytes in
        var filled = 0
        while filled < bytes.count {
            let count = min(bytes.count - filled, 256)
            let status = getentropy(bytes.baseAddress.map { $0 + filled }, count)
            // The call fails only for a bad address or for more than 256 bytes. Neither occurs here.
            precondition(status == 0, "the kernel's random generator failed")
            filled += count
        }
    }

    /// Fills the block with fewer calls to the source than `next` would need.
    package func fill(_ block: inout [UInt64]) {
        block.withUnsafeMutableBytes { fillBytes($0) }
    }

    package func next() -> UInt64 {
        var bits: UInt64 = 0
        withUnsafeMutableBytes(of: &bits) { fillBytes($0) }
        return bits
    }
}
