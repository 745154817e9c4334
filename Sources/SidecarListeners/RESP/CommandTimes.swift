internal import DequeModule
internal import InterlockCore
internal import SidecarTelemetry

/// Histograms of the RESP API's command latencies, from arrival to answer. Confined to the coordinator's event loop.
final class CommandTimes {
    private let metrics: PrometheusRegistry
    /// The histograms, in the order of `RESPCommandTable.metricNames`; `nil` until the command is answered for the
    /// first time.
    private var histograms: [TimeHistogram?]

    init(in metrics: PrometheusRegistry) {
        self.metrics = metrics
        histograms = Array(repeating: nil, count: RESPCommandTable.metricNames.count)
    }

    /// - Parameter command: the command's index in `RESPCommandTable.metricNames`.
    func record(_ command: Int, nanoseconds: Int64, count: Int) {
        histogram(of: command).recordNanoseconds(nanoseconds, count: count)
    }

    /// Attaches the trace of a recorded command as an exemplar.
    func addExemplar(_ command: Int, by trace: TraceContext, nanoseconds: Int64) {
        histogram(of: command).addExemplar(by: trace, nanoseconds: nanoseconds)
    }

    private func histogram(of command: Int) -> TimeHistogram {
        if let histogram = histograms[command] { return histogram }
        let histogram = metrics.latencies("interlock_resp_command_seconds", [("command", RESPCommandTable.metricNames[command])])
        histograms[command] = histogram
        return histogram
    }
}

/// The arrival times of a connection's unanswered commands.
struct CommandArrivals {
    /// Consecutive commands of one kind that arrived together.
    private struct Run {
        var command: Int
        var at: Instant
        /// The tag of the first command.
        var tag: UInt64
        var count: Int
    }

    private var runs = Deque<Run>()
    /// The traces of commands whose replies wait for earlier ones.
    private var traces: [UInt64: TraceContext] = [:]

    var isEmpty: Bool { runs.isEmpty }

    /// - Parameter tag: the command's tag, which is higher than all earlier ones.
    mutating func recordArrival(_ command: Int, tag: UInt64, at: Instant) {
        if let last = runs.last, last.command == command, last.at == at, last.tag &+ UInt64(last.count) == tag {
            runs[runs.count - 1].count += 1
        } else {
            runs.append(Run(command: command, at: at, tag: tag, count: 1))
        }
    }

    /// Adds `count` repeats of the last command.
    mutating func recordRepeats(_ count: Int) {
        if !runs.isEmpty { runs[runs.count - 1].count += count }
    }

    /// Records that the command with this tag belongs to this trace.
    mutating func traced(_ tag: UInt64, by trace: TraceContext) { traces[tag] = trace }

    /// Records the times of the commands with lower tags, which have been answered.
    mutating func answered(before tag: UInt64, now: Instant, _ times: CommandTimes) {
        while let first = runs.first, first.tag < tag {
            let count = min(first.count, Int(tag &- first.tag))
            let nanoseconds = now.nanoseconds - first.at.nanoseconds
            times.record(first.command, nanoseconds: nanoseconds, count: count)
            if !traces.isEmpty {
                for (tag, trace) in traces where tag >= first.tag && tag < first.tag &+ UInt64(count) {
                    times.addExemplar(first.command, by: trace, nanoseconds: nanoseconds)
                    traces[tag] = nil
                }
            }
            if count == first.count {
                runs.removeFirst()
            } else {
                runs[0].tag &+= UInt64(count)
                runs[0].count -= count
            }
        }
    }
}
