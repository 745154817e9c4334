package import NIOCore

/// The bytes of replies to a client. Grows as needed, and is reused after each flush.
///
/// This type replaces `ByteBuffer`, which checks and copies for every few bytes of a reply. NIO gets the bytes once for
/// each flush.
/// Benchmark: "LIMIT.TAKE, refused" in Benchmarks/figures/decisions.py.
package final class ReplyBuffer {
    private var storage: UnsafeMutableRawPointer
    private var capacity: Int
    private(set) var count = 0
    /// The counters of error replies; `nil` if they are not counted. They are here so that a writer has only one
    /// reference to retain.
    var errors: RESPErrorCounters?

    private static let minimumCapacity = 512
    /// The maximum capacity, in bytes, that is kept when the buffer is emptied.
    private static let maximumRetainedCapacity = 128 << 10

    init() {
        capacity = Self.minimumCapacity
        storage = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit {
        storage.deallocate()
    }

    /// A copy of the written bytes for NIO.
    package var contents: ByteBuffer { ByteBuffer(bytes: UnsafeRawBufferPointer(start: storage, count: count)) }

    func removeAll() {
        count = 0
        if capacity > Self.maximumRetainedCapacity { resize(to: Self.minimumCapacity) }
    }

    func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress else { return }
        reserve(bytes.count)
        (storage + count).copyMemory(from: source, byteCount: bytes.count)
        count += bytes.count
    }

    func append(_ text: StaticString) {
        append(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    func append(_ text: String) {
        var text = text
        text.withUTF8 { append(UnsafeRawBufferPointer($0)) }
    }

    func append(_ other: ReplyBuffer) {
        append(UnsafeRawBufferPointer(start: other.storage, count: other.count))
    }

    /// Appends a copy of bytes that were written before.
    func repeatBytes(_ range: Range<Int>) {
        reserve(range.count)
        (storage + count).copyMemory(from: storage + range.lowerBound, byteCount: range.count)
        count += range.count
    }

    /// Appends a type byte, a number and a line end, without an intermediate string.
    func appendHeader(_ type: UInt8, _ value: Int64) {
        // A type byte, a sign, 19 digits and a line end.
        reserve(23)
        let target = (storage + count).assumingMemoryBound(to: UInt8.self)
        target[0] = type
        var length = 1
        var magnitude = value.magnitude
        if value < 0 {
            target[1] = UInt8(ascii: "-")
            length = 2
        }
        var digitCount = 1
        var power: UInt64 = 10
        // No overflow: a magnitude has at most 19 digits, and 10¹⁹ fits into 64 bits.
        while digitCount < 19, magnitude >= power {
            digitCount += 1
            power &*= 10
        }
        length += digitCount
        var index = length
        for _ in 0..<digitCount {
            index -= 1
            target[index] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: magnitude % 10)
            magnitude /= 10
        }
        target[length] = UInt8(ascii: "\r")
        target[length + 1] = UInt8(ascii: "\n")
        count += length + 2
    }

    /// Ensures capacity for `additionalBytes` more bytes.
    private func reserve(_ additionalBytes: Int) {
        if capacity - count < additionalBytes { resize(to: max(2 * capacity, count + additionalBytes)) }
    }

    private func resize(to newCapacity: Int) {
        let newStorage = UnsafeMutableRawPointer.allocate(byteCount: newCapacity, alignment: 16)
        newStorage.copyMemory(from: storage, byteCount: count)
        storage.deallocate()
        storage = newStorage
        capacity = newCapacity
    }
}
