internal import Glibc
internal import InterlockCore

/// The CPU time and memory of local processes, from `/proc`.
struct ProcessMeter: Sendable {
    private struct Followed: Sendable {
        var process: Int32
        /// The CPU time of earlier processes with this name.
        var earlierSeconds = 0.0
        var startSeconds: Double?
        var currentSeconds = 0.0
        var residentPeak = 0
        var residentEnd = 0

        var seconds: Double { earlierSeconds + currentSeconds - (startSeconds ?? currentSeconds) }
    }

    private let pageSize = sysconf(Int32(_SC_PAGESIZE))
    private let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))
    private var followed: [String: Followed] = [:]
    private var startedAt: Instant?
    private var lastSample: Instant?

    /// Measures this process under `name` from now on. An earlier process with the name has ended.
    mutating func follow(_ name: String, process: Int32) {
        guard followed[name]?.process != process else { return }
        var entry = Followed(process: process)
        if let earlier = followed[name] {
            entry.earlierSeconds = earlier.seconds
            // A process that was started during the run counts from its start.
            entry.startSeconds = 0
            entry.residentPeak = earlier.residentPeak
        }
        followed[name] = entry
    }

    /// Samples all processes. Takes about 20 µs per process.
    mutating func sample(at now: Instant) {
        startedAt = startedAt ?? now
        lastSample = now
        for name in followed.keys { sample(name) }
    }

    private mutating func sample(_ name: String) {
        guard var entry = followed[name], let seconds = processorSeconds(of: entry.process),
            let resident = residentBytes(of: entry.process)
        else { return }
        entry.startSeconds = entry.startSeconds ?? seconds
        entry.currentSeconds = seconds
        entry.residentPeak = max(entry.residentPeak, resident)
        entry.residentEnd = resident
        followed[name] = entry
    }

    var reports: [ProcessReport] {
        guard let startedAt, let lastSample else { return [] }
        let length = max(lastSample.seconds(since: startedAt), 1e-9)
        // Shorter names first: `sidecar 2` before `sidecar 10`.
        return followed.sorted { ($0.key.utf8.count, $0.key) < ($1.key.utf8.count, $1.key) }.map { name, entry in
            ProcessReport(
                name: name, averageCores: entry.seconds / length, residentPeak: entry.residentPeak,
                residentEnd: entry.residentEnd)
        }
    }

    private func processorSeconds(of process: Int32) -> Double? {
        guard let text = Self.read("/proc/\(process)/stat"), let nameEnd = text.lastIndex(of: ")") else { return nil }
        // The fields utime and stime are the 12th and 13th after the command name in parentheses.
        let fields = text[text.index(after: nameEnd)...].split(separator: " ")
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return nil }
        return (user + system) / ticksPerSecond
    }

    private func residentBytes(of process: Int32) -> Int? {
        guard let fields = Self.read("/proc/\(process)/statm")?.split(separator: " "), fields.count > 1 else { return nil }
        return Int(fields[1]).map { $0 * pageSize }
    }

    /// Returns the name of the executable of a process; `nil` if there is no such process or it belongs to another
    /// user.
    static func programName(of process: Int32) -> String? {
        var bytes = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/\(process)/exe", &bytes, bytes.count)
        guard count > 0 else { return nil }
        let path = String(decoding: bytes[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // The kernel appends " (deleted)" to the path of a replaced file.
        return path.split(separator: "/").last?.split(separator: " ").first.map(String.init)
    }

    /// Reads a file of `/proc` (at most 1024 bytes). Such reads never block.
    private static func read(_ path: String) -> String? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 1024)
        let count = Glibc.read(file, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }
}

/// The number of commands that Redis received from the fleet, by the sidecars' own counters. A script counts as one
/// command. Redis's own counters also include the calls inside scripts.
struct RedisCommandMeter: Sendable {
    private struct Count: Sendable {
        /// The commands of earlier processes of this sidecar.
        var earlier = 0
        var first: Int
        var last: Int
        var process: Int32
    }

    private var counts: [Int: Count] = [:]

    /// Records the counter of a sidecar. The counter of a new process starts at 0.
    mutating func recordCount(_ commands: Int, sidecar: Int, process: Int32) {
        guard var count = counts[sidecar] else {
            counts[sidecar] = Count(first: commands, last: commands, process: process)
            return
        }
        if count.process != process || commands < count.last {
            count.earlier += count.last - count.first
            count.first = 0
            count.process = process
        }
        count.last = commands
        counts[sidecar] = count
    }

    /// The commands since the first sample; `nil` if no sidecar reported any. Commands that a killed sidecar sent after
    /// its last sample, up to one second's worth, are missing.
    var commands: Double? {
        counts.isEmpty ? nil : Double(counts.values.reduce(0) { $0 + $1.earlier + $1.last - $1.first })
    }
}
