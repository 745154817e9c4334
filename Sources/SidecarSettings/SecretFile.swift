internal import Glibc
import InterlockCore

/// A file that holds one secret, such as an API key or a password, and optionally a line end.
struct SecretFile {
    /// The reason why a secret cannot be read. Never contains the file's content.
    struct Problem: Error, CustomStringConvertible {
        let description: String
    }

    let path: String

    /// The maximum size of a file. A longer file is probably not a secret, but was named by mistake.
    private static let maximumBytes = 4_096

    /// Returns the content without one trailing line end. Reads at most about twice `maximumBytes`, and never waits for
    /// the writer of a pipe.
    /// - Throws: `Problem` if the file cannot be read or is not a secret.
    func secret() throws(Problem) -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw Self.problem(errno) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: Self.maximumBytes + 1)
        while bytes.count <= Self.maximumBytes {
            let count = read(descriptor, &buffer, buffer.count)
            guard count >= 0 else {
                if errno == EINTR { continue }
                throw Self.problem(errno)
            }
            if count == 0 { break }
            bytes += buffer.prefix(count)
        }
        guard bytes.count <= Self.maximumBytes else {
            throw Problem(description: "the file is longer than \(Self.maximumBytes) bytes; it must contain only the secret")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw Problem(description: "the file is not UTF-8") }
        let secret = text.last?.isNewline == true ? String(text.dropLast()) : text
        guard !secret.isEmpty else { throw Problem(description: "the file is empty") }
        return secret
    }

    /// Reads and checks the secret in the file that `value` names, and reports mistakes.
    static func secret(
        namedBy value: ConfigurationValue, checkedBy check: (String) throws(InvalidConfigurationValue) -> String
    ) -> String? {
        guard let path = value.parsed(by: { $0 }) else { return nil }
        do throws(Problem) {
            let secret = try SecretFile(path: path).secret()
            do {
                return try check(secret)
            } catch {
                value.reject(error.message(got: "another value in the file"))
            }
        } catch {
            value.reject(error.description)
        }
        return nil
    }

    private static func problem(_ code: Int32) -> Problem {
        switch code {
        case ENOENT, ENOTDIR: Problem(description: "there is no such file")
        case EACCES, EPERM: Problem(description: "this user may not read the file")
        case EISDIR: Problem(description: "expected a file, got a directory")
        default: Problem(description: "the file cannot be read: \(String(cString: strerror(code)))")
        }
    }
}
