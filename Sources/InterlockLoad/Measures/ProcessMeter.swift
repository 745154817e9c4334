internal import Glibc
internal import InterlockCore

/// What processes of this machine use, as the kernel counts it in `/proc`.
struct ProcessMeter: Sendable {
    private struct Followed: Sendable {
        var process: Int32
        /// Of processes that bore this name before.
        var secondsEarlier = 0.0
        var secondsAtStart: Double?
        var secondsNow = 0.0
        var residentPeak = 0
        var residentEnd = 0

        var seconds: Double { secondsEarlier + secondsNow - (secondsAtStart ?? secondsNow) }
    }

    private let pageSize = sysconf(Int32(_SC_PAGESIZE))
    private let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))
    private var followed: [String: Followed] = [:]
    private var startedAt: Instant?
    private var lastSample: Instant?

    /// From now on `name` is this process; one that bore the name before has ended.
    mutating func follow(_ name: String, process: Int32) {
        guard followed[name]?.process != process else { return }
        var entry = Followed(process: process)
        if let earlier = followed[name] {
            entry.secondsEarlier = earlier.seconds
            // It was started in the middle of the run: all that it has used counts.
            entry.secondsAtStart = 0
            entry.residentPeak = earlier.residentPeak
        }
        followed[name] = entry
    }

    /// Reads all of them: about 20 µs for each.
    mutating func sample(at now: Instant) {
        startedAt = startedAt ?? now
        lastSample = now
        for name in followed.keys { sample(name) }
    }

    private mutating func sample(_ name: String) {
        guard var entry = followed[name], let seconds = processorSeconds(of: entry.process),
            let resident = residentBytes(of: entry.process)
        else { return }
        entry.secondsAtStart = entry.secondsAtStart ?? seconds
        entry.secondsNow = seconds
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
                name: name, coreShare: entry.seconds / length, residentPeak: entry.residentPeak,
                residentEnd: entry.residentEnd)
        }
    }

    private func processorSeconds(of process: Int32) -> Double? {
        guard let text = Self.read("/proc/\(process)/stat"), let behindName = text.lastIndex(of: ")") else { return nil }
        // Behind the command's name, which is in parentheses, utime and stime are the 12th and 13th.
        let fields = text[text.index(after: behindName)...].split(separator: " ")
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return nil }
        return (user + system) / ticksPerSecond
    }

    private func residentBytes(of process: Int32) -> Int? {
        guard let fields = Self.read("/proc/\(process)/statm")?.split(separator: " "), fields.count > 1 else { return nil }
        return Int(fields[1]).map { $0 * pageSize }
    }

    /// The name of the program that a process executes; `nil`: there is no such process, or it belongs to another user.
    static func programName(of process: Int32) -> String? {
        var bytes = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/\(process)/exe", &bytes, bytes.count)
        guard count > 0 else { return nil }
        let path = String(decoding: bytes[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // Of a file that was replaced since, the kernel says so behind its name.
        return path.split(separator: "/").last?.split(separator: " ").first.map(String.init)
    }

    /// A file of `/proc`, which never blocks.
    private static func read(_ path: String) -> String? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 1024)
        let count = Glibc.read(file, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }
}

/// How many commands Redis received from the fleet, by the sidecars' own counts: a script is one, whatever it calls. Redis'
/// own counts hold the calls inside scripts too.
struct RedisCommandMeter: Sendable {
    private struct Count: Sendable {
        /// Of processes that were this sidecar before.
        var earlier = 0
        var first: Int
        var last: Int
        var process: Int32
    }

    private var counts: [Int: Count] = [:]

    /// What a sidecar said now. A process that has taken another's place counts from 0.
    mutating func counted(_ commands: Int, sidecar: Int, process: Int32) {
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

    /// Since the first counts; `nil`: no sidecar told. What a sidecar that was killed sent after its last count, up to a
    /// second's worth, is missing.
    var commands: Double? {
        counts.isEmpty ? nil : Double(counts.values.reduce(0) { $0 + $1.earlier + $1.last - $1.first })
    }
}
