internal import CArguments
import Glibc

/// The words that this process was started with, whether `/proc` can be read or not.
package enum ProgramArguments {
    /// All of them, the program's own name first. What is not UTF-8 is repaired.
    package static var words: [String] { bytes(ofLast: count).map { String(decoding: $0, as: UTF8.self) } }

    /// The last of them, byte for byte: not everything that is an argument is UTF-8.
    package static func bytes(ofLast number: Int) -> [[UInt8]] {
        let start = pointer(toLast: number)
        return (0..<number).map { index in
            // The C library's own array: below the count each entry is a string that ends with a zero byte.
            guard let word = start[index] else { return [] }
            return Array(UnsafeRawBufferPointer(start: word, count: strlen(word)))
        }
    }

    /// Where the last of them begin. Behind the last one is the null pointer that ends all arguments, as `execv` needs it.
    package static func pointer(toLast number: Int) -> UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> {
        precondition(number <= count, "more arguments were asked for than this process has")
        return interlock_arguments() + (count - number)
    }

    private static var count: Int { Int(interlock_argument_count()) }
}
