import Glibc
import InterlockProcesses

/// A full pipe in the file system without a reader, like that of a stopped log collector.
final class BlockedPipe: Sendable {
    let path: String
    /// The descriptor is open for reading and writing, so that opening the other end never waits.
    private let descriptor: Int32

    /// Creates the pipe at `path` and fills it.
    init(at path: String) throws {
        self.path = path
        guard mkfifo(path, 0o600) == 0 else { throw InterlockProcess.Problem(reason: "mkfifo: errno \(errno)") }
        descriptor = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { throw InterlockProcess.Problem(reason: "open: errno \(errno)") }
        let padding = [UInt8](repeating: UInt8(ascii: "."), count: 4095) + [UInt8(ascii: "\n")]
        while write(descriptor, padding, padding.count) > 0 {}
    }

    deinit {
        close(descriptor)
        unlink(path)
    }

    /// Returns the command prefix that runs another command with this pipe as one of its descriptors.
    func wrapper(descriptor: Int32) -> [String] { ["sh", "-c", "exec \"$@\" \(descriptor)>'\(path)'", "sh"] }

    /// Removes the current content from the pipe and returns it.
    func read() -> String {
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = Glibc.read(descriptor, &part, part.count)
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += part.prefix(count)
        }
    }
}
