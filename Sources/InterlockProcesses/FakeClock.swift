internal import FoundationEssentials
internal import Glibc
internal import Subprocess

/// A wall clock for a child process, controlled through libfaketime. Start the process with `environment`. The clock
/// does not affect the monotonic clock.
package struct FakeClock: Sendable {
    /// The variables that make a program use this clock.
    package let environment: [String: String]
    private let path: String

    /// Creates a clock that shows the true time until it is changed.
    /// - Parameters:
    ///   - path: the file that holds the time; its directory must exist.
    ///   - isUncached: whether each reading of the clock reads the file, so that a change takes effect immediately.
    ///     This reduces the throughput of Redis to an eighth. Otherwise, a change takes effect within two seconds, and
    ///     the throughput is two thirds.
    /// - Throws: `FakeClockError` if libfaketime is missing, or an error of Foundation if the file cannot be
    ///   written.
    package init(file path: String, isUncached: Bool = true) async throws {
        self.path = path
        let cacheVariable = isUncached ? "FAKETIME_NO_CACHE" : "FAKETIME_CACHE_DURATION"
        environment = [
            // Preload libc too, because Redis is linked with jemalloc, which reads the clock while libfaketime
            // allocates memory: the two would deadlock.
            "LD_PRELOAD": "\(try await Self.library()):libc.so.6",
            "FAKETIME_TIMESTAMP_FILE": path,
            cacheVariable: "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "TZ": "UTC",
        ]
        try setOffset(seconds: 0)
    }

    /// Sets the clock to the true time plus an offset in seconds.
    package func setOffset(seconds offset: Int) throws {
        try write(offset < 0 ? "\(offset)" : "+\(offset)")
    }

    /// Stops the clock at this time.
    /// - Parameter microseconds: the Unix time in microseconds.
    package func freeze(atMicroseconds microseconds: Int64) throws {
        var seconds = time_t(microseconds / 1_000_000)
        var date = tm()
        gmtime_r(&seconds, &date)
        func padded(_ number: some BinaryInteger, _ length: Int) -> String {
            let digits = "\(number)"
            return String(repeating: "0", count: max(0, length - digits.count)) + digits
        }
        let day = "\(padded(date.tm_year + 1900, 4))-\(padded(date.tm_mon + 1, 2))-\(padded(date.tm_mday, 2))"
        let hour = "\(padded(date.tm_hour, 2)):\(padded(date.tm_min, 2)):\(padded(date.tm_sec, 2))"
        // Add half a microsecond, because libfaketime reads the fraction as a floating-point number and truncates it.
        try write("\(day) \(hour).\(padded(microseconds % 1_000_000, 6))5")
    }

    /// Replaces the file atomically, because libfaketime may read it at any time.
    private func write(_ text: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path), options: .atomic)
    }

    /// The maximum number of attempts to run `faketime`, which fails if a killed `faketime` with the same process ID
    /// has left a semaphore behind.
    private static let maximumAttempts = 5

    /// Returns the path of the library that `faketime` preloads, which only `faketime` knows.
    private static func library() async throws -> String {
        let words = ["-m", "-f", "+0", "printenv", "LD_PRELOAD"]
        var errorOutput = ""
        for _ in 0..<maximumAttempts {
            do {
                let result = try await Subprocess.run(
                    .name("faketime"), arguments: Arguments(words), output: .string(limit: 1 << 12),
                    error: .string(limit: 1 << 12))
                if let path = result.standardOutput.split(separator: "\n").first { return String(path) }
                errorOutput = result.standardError
            } catch {
                throw FakeClockError(
                    reason: "cannot run faketime, which moves the clock; install it with `make setup`: \(error)")
            }
        }
        throw FakeClockError(reason: "faketime does not preload a library: \(errorOutput)")
    }
}

/// The error for a fake clock that cannot be set up.
package struct FakeClockError: Error, CustomStringConvertible {
    package var reason: String

    package var description: String { reason }
}
