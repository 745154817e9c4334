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

    /// Replaces this process by another program with the last arguments. The first of them becomes the program's name.
    ///
    /// The arguments are passed as bytes, because they need not be UTF-8. The program starts with no signal blocked:
    /// it would inherit the mask of the thread that runs this command, which blocks most signals.
    /// - Parameter isSearched: whether a name without a slash is searched for in `PATH`.
    /// - Returns: only if the program cannot be executed, the error number.
    package static func execute(_ program: String, withLast lastCount: Int, isSearched: Bool = false) -> Int32 {
        let words = pointer(toLast: lastCount)
        var noSignals = sigset_t()
        sigemptyset(&noSignals)
        pthread_sigmask(SIG_SETMASK, &noSignals, nil)
        if isSearched { execvp(program, words) } else { execv(program, words) }
        return errno
    }

    /// Returns a pointer to the last arguments, which a null pointer follows, as `execv` requires.
    private static func pointer(toLast lastCount: Int) -> UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> {
        precondition(lastCount <= count, "more arguments were requested than this process has")
        return interlock_arguments() + (count - lastCount)
    }

    private static var count: Int { Int(interlock_argument_count()) }
}
