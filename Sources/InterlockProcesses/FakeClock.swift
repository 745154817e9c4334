internal import FoundationEssentials
internal import Glibc
internal import Subprocess

/// A wall clock for a child process, controlled through libfaketime. The monotonic clock is not changed. Start the
/// process with `environment`.
package struct FakeClock: Sendable {
    /// The variables that make a program use this clock.
    package let environment: [String: String]
    private let path: String

    /// Creates a clock that shows the true time until it is changed.
    /// - Parameters:
    ///   - path: the file that holds the time; its directory must exist.
    ///   - isUncached: whether a change takes effect immediately, because each clock reading reads the file. This
    ///     reduces the throughput of Redis to an eighth. Otherwise a change takes effect within two seconds, and the
    ///     throughput is two thirds.
    /// - Throws: `FakeClockError` if libfaketime is missing, or an error of Foundation if the file cannot be
    ///   written.
    package init(file path: String, isUncached: Bool = true) async throws {
        self.path = path
        let reading = isUncached ? "FAKETIME_NO_CACHE" : "FAKETIME_CACHE_DURATION"
        environment = [
            // Preload libc too, because Redis is linked with jemalloc, which reads the clock while libfaketime
            // allocates memory: the two would deadlock.
            "LD_PRELOAD": "\(try await Self.library()):libc.so.6",
            "FAKETIME_TIMESTAMP_FILE": path,
            reading: "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "TZ": "UTC",
        ]
        try setOffset(seconds: 0)
    }

    /// Sets the clock to the true time plus an offset in seconds.
    package func setOffset(seconds offset: Int) throws {
        try write(offset < 0 ? "\(offset)" : "+\(offset)")
    }

    /// Stops the clock at this time, as Unix time in microseconds.
    package func freeze(atMicroseconds time: Int64) throws {
        var seconds = time_t(time / 1_000_000)
        var date = tm()
        gmtime_r(&seconds, &date)
        func padded(_ number: some BinaryInteger, _ length: Int) -> String {
            let digits = "\(number)"
            return String(repeating: "0", count: max(0, length - digits.count)) + digits
        }
        let day = "\(padded(date.tm_year + 1900, 4))-\(padded(date.tm_mon + 1, 2))-\(padded(date.tm_mday, 2))"
        let hour = "\(padded(date.tm_hour, 2)):\(padded(date.tm_min, 2)):\(padded(date.tm_sec, 2))"
        // libfaketime reads the fraction as a floating-point number and truncates it, so half a microsecond is added.
        try write("\(day) \(hour).\(padded(time % 1_000_000, 6))5")
    }

    /// Replaces the file atomically, because libfaketime may read it at any time.
    private func write(_ text: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path), options: .atomic)
    }

    /// The number of attempts to run `faketime`, which fails if a killed `faketime` with the same process ID has left a
    /// semaphore behind.
    private static let attempts = 5

    /// Returns the library that `faketime` preloads, because only `faketime` knows its path.
    private static func library() async throws -> String {
        let words = ["-m", "-f", "+0", "printenv", "LD_PRELOAD"]
        var errorOutput = ""
        for _ in 0..<attempts {
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
