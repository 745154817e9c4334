internal import Glibc
internal import Interlock

/// The metrics of this process that Linux provides, under the names that all Prometheus clients use.
enum ProcessMetrics {
    static func append(to text: inout PrometheusText) {
        guard let fields = statFields() else { return }
        let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))
        appendMetric(
            "process_cpu_seconds_total", .counter, (fields.userTicks + fields.systemTicks) / ticksPerSecond, &text)
        if let count = openDescriptorCount() { appendMetric("process_open_fds", .gauge, Double(count), &text) }
        if let limit = OpenFileLimit.current { appendMetric("process_max_fds", .gauge, Double(limit), &text) }
        let pageBytes = Double(sysconf(Int32(_SC_PAGESIZE)))
        appendMetric("process_resident_memory_bytes", .gauge, fields.residentPages * pageBytes, &text)
        if let bootSeconds = bootTimeSeconds() {
            appendMetric("process_start_time_seconds", .gauge, bootSeconds + fields.startTicks / ticksPerSecond, &text)
        }
    }

    /// Writes a metric without labels.
    private static func appendMetric(_ name: String, _ kind: MetricKind, _ value: Double, _ text: inout PrometheusText) {
        text.appendHeader(name: name, kind: kind)
        text.appendSample(name: name, labels: SeriesLabels([]), value: PrometheusText.number(value))
    }

    private struct StatFields {
        var userTicks: Double
        var systemTicks: Double
        /// The start of the process, in ticks since the machine booted.
        var startTicks: Double
        var residentPages: Double
    }

    /// Reads proc_pid_stat(5). Field numbers are counted from the command's name, which may contain any character.
    private static func statFields() -> StatFields? {
        guard let line = contents(of: "/proc/self/stat"), let end = line.lastIndex(of: ")") else { return nil }
        let fields = line[line.index(after: end)...].split(separator: " ")
        guard fields.count > 21, let user = Double(fields[11]), let system = Double(fields[12]),
            let start = Double(fields[19]), let resident = Double(fields[21])
        else { return nil }
        return StatFields(userTicks: user, systemTicks: system, startTicks: start, residentPages: resident)
    }

    /// Returns the time when the machine booted, as Unix time in seconds.
    private static func bootTimeSeconds() -> Double? {
        let line = contents(of: "/proc/stat")?.split(separator: "\n").first { $0.hasPrefix("btime ") }
        return line.flatMap { Double($0.dropFirst(6)) }
    }

    /// Returns the number of open descriptors, except the one that reads the directory.
    private static func openDescriptorCount() -> Int? {
        guard let folder = opendir("/proc/self/fd") else { return nil }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        // The directory also lists `.`, `..` and the descriptor that reads it.
        return count - 3
    }

    /// Reads a whole file of `/proc`.
    private static func contents(of path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 8192)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            guard count > 0 else { return count == 0 ? String(decoding: bytes, as: UTF8.self) : nil }
            bytes += chunk[..<count]
        }
    }
}
