internal import CArguments
import Glibc

/// The command-line arguments of this process, which are available even if `/proc` cannot be read.
package enum ProgramArguments {
    /// All arguments, starting with the program's own name, with U+FFFD in place of invalid UTF-8.
    package static var strings: [String] { bytes(ofLast: count).map { String(decoding: $0, as: UTF8.self) } }

    /// Returns the last arguments as bytes, because arguments need not be UTF-8.
    package static func bytes(ofLast lastCount: Int) -> [[UInt8]] {
        let start = pointer(toLast: lastCount)
        return (0..<lastCount).map { index in
            // The array belongs to the C library, and each entry below the count is a zero-terminated string.
            guard let word = start[index] else { return [] }
            return Array(UnsafeRawBufferPointer(start: word, count: strlen(word)))
        }
    }

    /// Returns a pointer to the last arguments, which a null pointer follows, as `execv` requires.
    package static func pointer(toLast lastCount: Int) -> UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> {
        precondition(lastCount <= count, "more arguments were requested than this process has")
        return interlock_arguments() + (count - lastCount)
    }

    private static var count: Int { Int(interlock_argument_count()) }
}
