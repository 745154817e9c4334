import NIOCore
import Testing

@testable import InterlockHTTP

@Suite("Unread bytes")
struct UnreadBytesTests {
    @Test("The memory of bytes that were read is reused even if reads never end with a message")
    func readBytes() {
        let message = ByteBuffer(repeating: 1, count: 3000)
        let part = ByteBuffer(repeating: 1, count: 4096)
        var input = ByteBuffer()
        for _ in 1...1000 {
            input.append(unread: part)
            while input.readableBytes > message.readableBytes { input.moveReaderIndex(forwardBy: message.readableBytes) }
        }
        #expect(input.capacity <= 16_384)
    }

    @Test("Unread bytes are kept in order")
    func unreadBytesAreKeptInOrder() {
        var input = ByteBuffer(string: "abc")
        input.moveReaderIndex(forwardBy: 2)
        for letter in "defghijklmnopqrstuvwxyz" { input.append(unread: ByteBuffer(string: String(letter))) }
        #expect(input.getString(at: input.readerIndex, length: input.readableBytes) == "cdefghijklmnopqrstuvwxyz")
    }

    @Test("The first bytes are taken without a copy")
    func firstBytesAreTakenWithoutCopy() {
        let bytes = ByteBuffer(repeating: 1, count: 4096)
        var input = ByteBuffer()
        input.append(unread: bytes)
        #expect(input.storageCapacity == bytes.storageCapacity && input == bytes)
    }
}
