internal import CArguments
import Glibc

/// The command-line arguments of this process, which are available even if `/proc` cannot be read.
package enum ProgramArguments {
    /// All arguments, starting with the program's own name. Invalid UTF-8 is repaired.
    package static var strings: [String] { bytes(ofLast: count).map { String(decoding: $0, as: UTF8.self) } }

    /// Returns the last arguments as bytes, because arguments need not be UTF-8.
    package static func bytes(ofLast number: Int) -> [[UInt8]] {
        let start = pointer(toLast: number)
        return (0..<number).map { index in
            // The array belongs to the C library, and each entry below the count is a zero-terminated string.
            guard let word = start[index] else { return [] }
            return Array(UnsafeRawBufferPointer(start: word, count: strlen(word)))
        }
    }

    /// Returns a pointer to the last arguments. A null pointer follows them, as `execv` requires.
    package static func pointer(toLast number: Int) -> UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> {
        precondition(number <= count, "more arguments were requested than this process has")
        return interlock_arguments() + (count - number)
    }

    private static var count: Int { Int(interlock_argument_count()) }
}
