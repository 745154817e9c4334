internal import FoundationEssentials
internal import InterlockJudge

extension RunReport {
    /// The report as one JSON object on one line, with sorted keys. Numbers that JSON does not support become strings:
    /// `"inf"`, `"-inf"`, `"nan"`.
    /// - Throws: an error of `JSONEncoder`.
    package var json: String {
        get throws {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            // One non-finite number must not fail the whole report.
            encoder.nonConformingFloatEncodingStrategy = .convertToString(
                positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
            return String(decoding: try encoder.encode(self), as: UTF8.self)
        }
    }
}

// The JSON keys include the units: times in `_s` count from the start of the run, times in `_ms` from the Unix epoch.

extension RunReport {
    enum CodingKeys: String, CodingKey {
        case title, seed, settings, operations, timeline, processes, faults, ownership, windows, check
        case startedAtMilliseconds = "started_at_ms"
        case durationSeconds = "duration_s"
        case redisCommands = "redis_commands"
        case redisCommandsPerOperation = "redis_commands_per_operation"
    }
}

extension LatencyReport {
    enum CodingKeys: String, CodingKey {
        case count, percentiles
        case mean = "mean_us"
        case p50 = "p50_us"
        case p90 = "p90_us"
        case p99 = "p99_us"
        case p999 = "p999_us"
        case max = "max_us"
    }
}

extension LatencyReport.Percentile {
    enum CodingKeys: String, CodingKey {
        case fraction = "share"
        case microseconds = "latency_us"
    }
}

extension TimelinePoint {
    enum CodingKeys: String, CodingKey {
        case second, offered, done, refused, failed
        case p50 = "p50_us"
        case p99 = "p99_us"
        case max = "max_us"
    }
}

extension ProcessReport {
    enum CodingKeys: String, CodingKey {
        case name
        case averageCores = "cores"
        case residentPeakBytes = "resident_peak_bytes"
        case residentEndBytes = "resident_end_bytes"
    }
}

extension FaultReport {
    enum CodingKeys: String, CodingKey {
        case number, kind, sidecar
        case beganSeconds = "began_s"
        case endedSeconds = "ended_s"
        case recoveredAfterSeconds = "recovered_after_s"
    }
}

extension OwnershipSpan {
    enum CodingKeys: String, CodingKey {
        case lock, client, sidecar, fence
        case beganSeconds = "began_s"
        case endedSeconds = "ended_s"
    }
}

extension WindowCount {
    enum CodingKeys: String, CodingKey {
        case service, granted, limit
        case beganSeconds = "began_s"
    }
}
