internal import Glibc
internal import InterlockCore

/// The CPU time and memory of local processes, from `/proc`.
struct ProcessMeter: Sendable {
    private struct Entry: Sendable {
        var processID: Int32
        /// The CPU time of earlier processes with this name.
        var earlierSeconds = 0.0
        /// The CPU time of this process when its measurement began.
        var startSeconds: Double?
        /// The CPU time of this process at the last sample.
        var currentSeconds = 0.0
        var residentPeakBytes = 0
        var residentEndBytes = 0

        var seconds: Double { earlierSeconds + currentSeconds - (startSeconds ?? currentSeconds) }
    }

    private let pageSize = sysconf(Int32(_SC_PAGESIZE))
    private let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))
    private var entries: [String: Entry] = [:]
    private var firstSampleAt: Instant?
    private var lastSampleAt: Instant?

    /// Measures this process under `name` from now on. It replaces an earlier process with the same name.
    mutating func follow(_ name: String, processID: Int32) {
        guard entries[name]?.processID != processID else { return }
        var entry = Entry(processID: processID)
        if let earlier = entries[name] {
            entry.earlierSeconds = earlier.seconds
            // A process that was started during the run counts from its start.
            entry.startSeconds = 0
            entry.residentPeakBytes = earlier.residentPeakBytes
        }
        entries[name] = entry
    }

    /// Samples all processes. Takes about 20 µs per process.
    mutating func sample(at now: Instant) {
        firstSampleAt = firstSampleAt ?? now
        lastSampleAt = now
        for name in entries.keys { sample(name) }
    }

    private mutating func sample(_ name: String) {
        guard var entry = entries[name], let seconds = processorSeconds(of: entry.processID),
            let resident = residentBytes(of: entry.processID)
        else { return }
        entry.startSeconds = entry.startSeconds ?? seconds
        entry.currentSeconds = seconds
        entry.residentPeakBytes = max(entry.residentPeakBytes, resident)
        entry.residentEndBytes = resident
        entries[name] = entry
    }

    var reports: [ProcessReport] {
        guard let firstSampleAt, let lastSampleAt else { return [] }
        let elapsedSeconds = max(lastSampleAt.seconds(since: firstSampleAt), 1e-9)
        // Shorter names come first, so `sidecar 2` precedes `sidecar 10`.
        return entries.sorted { ($0.key.utf8.count, $0.key) < ($1.key.utf8.count, $1.key) }.map { name, entry in
            ProcessReport(
                name: name, averageCores: entry.seconds / elapsedSeconds, residentPeakBytes: entry.residentPeakBytes,
                residentEndBytes: entry.residentEndBytes)
        }
    }

    private func processorSeconds(of processID: Int32) -> Double? {
        guard let status = Self.read("/proc/\(processID)/stat"), let nameEnd = status.lastIndex(of: ")")
        else { return nil }
        // The fields utime and stime are the 12th and 13th after the command name in parentheses.
        let fields = status[status.index(after: nameEnd)...].split(separator: " ")
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return nil }
        return (user + system) / ticksPerSecond
    }

    private func residentBytes(of processID: Int32) -> Int? {
        guard let fields = Self.read("/proc/\(processID)/statm")?.split(separator: " "), fields.count > 1 else { return nil }
        return Int(fields[1]).map { $0 * pageSize }
    }

    /// Returns the name of the executable of a process; `nil` if there is no such process or it belongs to another
    /// user.
    static func programName(of processID: Int32) -> String? {
        var bytes = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/\(processID)/exe", &bytes, bytes.count)
        guard count > 0 else { return nil }
        let path = String(decoding: bytes[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // The kernel appends " (deleted)" to the path of a replaced file.
        return path.split(separator: "/").last?.split(separator: " ").first.map(String.init)
    }

    /// Reads the first 1024 bytes of a file in `/proc`. Such reads never block.
    private static func read(_ path: String) -> String? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 1024)
        let count = Glibc.read(file, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }
}

/// Counts the commands that Redis received from the fleet, by the sidecars' own counters. A script counts as one
/// command there, whereas Redis's own counters include the calls inside scripts.
struct RedisCommandMeter: Sendable {
    private struct Count: Sendable {
        /// The number of commands of earlier processes of this sidecar.
        var earlierCount = 0
        var firstCounter: Int
        var lastCounter: Int
        var processID: Int32
    }

    private var counts: [Int: Count] = [:]

    /// Records the counter of a sidecar. The counter of a new process starts at 0.
    mutating func recordCount(_ commands: Int, sidecar: Int, processID: Int32) {
        guard var count = counts[sidecar] else {
            counts[sidecar] = Count(firstCounter: commands, lastCounter: commands, processID: processID)
            return
        }
        if count.processID != processID || commands < count.lastCounter {
            count.earlierCount += count.lastCounter - count.firstCounter
            count.firstCounter = 0
            count.processID = processID
        }
        count.lastCounter = commands
        counts[sidecar] = count
    }

    /// The number of commands since the first sample; `nil` if no sidecar reported its counter. It excludes the
    /// commands that a killed sidecar sent after its last sample, which are those of up to one second.
    var commands: Double? {
        guard !counts.isEmpty else { return nil }
        return Double(counts.values.reduce(0) { $0 + $1.earlierCount + $1.lastCounter - $1.firstCounter })
    }
}
