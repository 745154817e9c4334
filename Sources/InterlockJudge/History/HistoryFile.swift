internal import Glibc

/// A history that could not be written, or is not what it should be.
public struct HistoryFileError: Error, Hashable, Sendable, CustomStringConvertible {
    public let path: String
    /// Counted from 1; `nil`: it is about the file.
    public let line: Int?
    /// What was wrong, and what was expected.
    public let reason: String

    init(path: String, line: Int? = nil, _ reason: String) {
        self.path = path
        self.line = line
        self.reason = reason
    }

    public var description: String {
        "the history \"\(path)\"\(line.map { ", line \($0)" } ?? ""): \(reason)"
    }
}

/// The first line of a history file.
struct HistoryFileHeader: Codable {
    /// What this code writes and reads.
    static let version = 1

    /// What the last line is.
    static let end = "end"

    /// The format's version.
    var history: Int
    /// `nil`: written by a version that did not say so.
    var source: HistorySource?
    var rules: HistoryRules
}

/// Where a history comes from. Nothing else in it says so.
public enum HistorySource: String, Sendable, Codable {
    /// Processes and a Redis on a machine.
    case run
    /// A world that a seed decides.
    case simulation
}

/// A file descriptor that is closed when nobody holds it any more.
final class OpenFile: Sendable {
    let descriptor: Int32

    /// What the system says when it does not work.
    struct Failure: Error {
        let reason: String

        fileprivate init() { reason = String(cString: strerror(errno)) }
    }

    private init(_ descriptor: Int32) throws(Failure) {
        guard descriptor >= 0 else { throw Failure() }
        self.descriptor = descriptor
    }

    /// A new file that only this user may read, or an old one emptied.
    convenience init(writingTo path: String) throws(Failure) {
        try self.init(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600))
    }

    convenience init(readingFrom path: String) throws(Failure) {
        try self.init(open(path, O_RDONLY | O_CLOEXEC))
    }

    deinit { close(descriptor) }

    /// Writes all of it. Blocks.
    func write(_ bytes: [UInt8]) throws(Failure) {
        var done = 0
        while done < bytes.count {
            let written = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress.map { $0 + done }, $0.count - done) }
            if written > 0 { done += written } else if errno != EINTR { throw Failure() }
        }
    }

    /// Appends up to `count` bytes; returns how many: 0 at the end. Blocks.
    func read(_ count: Int, into bytes: inout [UInt8]) throws(Failure) -> Int {
        let before = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: count))
        while true {
            let read = bytes.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress.map { $0 + before }, count) }
            if read < 0, errno == EINTR { continue }
            guard read >= 0 else {
                bytes.removeLast(count)
                throw Failure()
            }
            bytes.removeLast(count - read)
            return read
        }
    }
}
