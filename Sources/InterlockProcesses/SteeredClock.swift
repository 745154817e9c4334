internal import FoundationEssentials
internal import Glibc
internal import Subprocess

/// The wall clock that a program shows itself, moved by libfaketime; its monotonic clock is the true one. Give the program
/// `environment`.
package struct SteeredClock: Sendable {
    /// What makes a program read this clock.
    package let environment: [String: String]
    private let path: String

    /// Shows the true time at first.
    /// - Parameters:
    ///   - path: of a file that tells the time; its folder must exist.
    ///   - isReadEachTime: whether a move is seen at once, at the price of a file read whenever the program asks for the time:
    ///     a Redis under load does an eighth of its work. Otherwise within two seconds, and it does two thirds.
    /// - Throws: `SteeredClockError` when libfaketime is not installed; what Foundation throws when the file cannot be written.
    package init(file path: String, isReadEachTime: Bool = true) async throws {
        self.path = path
        let reading = isReadEachTime ? "FAKETIME_NO_CACHE" : "FAKETIME_CACHE_DURATION"
        environment = [
            // jemalloc, which Redis is linked with, reads the clock while libfaketime is still allocating its own memory, and
            // both wait for ever. So memory comes from libc.
            "LD_PRELOAD": "\(try await Self.library()):libc.so.6",
            "FAKETIME_TIMESTAMP_FILE": path,
            reading: "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "TZ": "UTC",
        ]
        try show(secondsBesideTrueTime: 0)
    }

    /// Goes on from the true time and so many seconds more.
    package func show(secondsBesideTrueTime offset: Int) throws {
        try write(offset < 0 ? "\(offset)" : "+\(offset)")
    }

    /// Stands still at this time, in microseconds of the Unix epoch.
    package func stand(atMicroseconds time: Int64) throws {
        var seconds = time_t(time / 1_000_000)
        var date = tm()
        gmtime_r(&seconds, &date)
        func padded(_ number: some BinaryInteger, _ length: Int) -> String {
            let digits = "\(number)"
            return String(repeating: "0", count: max(0, length - digits.count)) + digits
        }
        let day = "\(padded(date.tm_year + 1900, 4))-\(padded(date.tm_mon + 1, 2))-\(padded(date.tm_mday, 2))"
        let hour = "\(padded(date.tm_hour, 2)):\(padded(date.tm_min, 2)):\(padded(date.tm_sec, 2))"
        // libfaketime reads the fraction as a floating-point number and cuts it off: the half keeps the microsecond.
        try write("\(day) \(hour).\(padded(time % 1_000_000, 6))5")
    }

    /// Replaces the file at once: libfaketime may read it at any time.
    private func write(_ text: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path), options: .atomic)
    }

    /// How often `faketime` is asked: it fails when one that was killed had its process id, and has left a semaphore behind.
    private static let attempts = 5

    /// What `faketime` itself preloads: only it knows where its library lies.
    private static func library() async throws -> String {
        let words = ["-m", "-f", "+0", "printenv", "LD_PRELOAD"]
        var said = ""
        for _ in 0..<attempts {
            do {
                let result = try await Subprocess.run(
                    .name("faketime"), arguments: Arguments(words), output: .string(limit: 1 << 12),
                    error: .string(limit: 1 << 12))
                if let path = result.standardOutput.split(separator: "\n").first { return String(path) }
                said = result.standardError
            } catch {
                throw SteeredClockError(
                    reason: "there is no faketime to move a clock with; `make setup` installs it: \(error)")
            }
        }
        throw SteeredClockError(reason: "faketime preloads nothing: \(said)")
    }
}

/// A clock cannot be moved.
package struct SteeredClockError: Error, CustomStringConvertible {
    package var reason: String

    package var description: String { reason }
}
