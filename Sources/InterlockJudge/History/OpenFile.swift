internal import Glibc

/// An open file descriptor, closed with its last reference.
final class OpenFile: Sendable {
    let descriptor: Int32

    /// A failed system call, with the system's error message.
    struct Failure: Error {
        let reason: String

        fileprivate init() { reason = String(cString: strerror(errno)) }
    }

    private init(_ descriptor: Int32) throws(Failure) {
        guard descriptor >= 0 else { throw Failure() }
        self.descriptor = descriptor
    }

    /// Creates a file that only this user may read, or empties an existing one.
    convenience init(writingTo path: String) throws(Failure) {
        try self.init(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600))
    }

    convenience init(readingFrom path: String) throws(Failure) {
        try self.init(open(path, O_RDONLY | O_CLOEXEC))
    }

    deinit { close(descriptor) }

    /// Writes all bytes. Blocks.
    func write(_ bytes: [UInt8]) throws(Failure) {
        var offset = 0
        while offset < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                Glibc.write(descriptor, buffer.baseAddress.map { $0 + offset }, buffer.count - offset)
            }
            if count > 0 { offset += count } else if errno != EINTR { throw Failure() }
        }
    }

    /// Appends up to `count` bytes and returns their number; 0 at the end of the file. Blocks.
    func read(_ count: Int, into bytes: inout [UInt8]) throws(Failure) -> Int {
        let previousCount = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: count))
        while true {
            let readCount = bytes.withUnsafeMutableBytes { buffer in
                Glibc.read(descriptor, buffer.baseAddress.map { $0 + previousCount }, count)
            }
            if readCount < 0, errno == EINTR { continue }
            guard readCount >= 0 else {
                bytes.removeLast(count)
                throw Failure()
            }
            bytes.removeLast(count - readCount)
            return readCount
        }
    }
}
