internal import DequeModule
internal import InterlockCore
internal import SidecarTelemetry

/// Histograms of the latencies of the RESP API's commands, from arrival to reply. Confined to the coordinator's event
/// loop.
final class CommandTimes {
    private let metrics: PrometheusRegistry
    /// The histograms, in the order of `RESPCommandTable.metricNames`; `nil` before the command's first reply.
    private var histograms: [TimeHistogram?]

    init(in metrics: PrometheusRegistry) {
        self.metrics = metrics
        histograms = Array(repeating: nil, count: RESPCommandTable.metricNames.count)
    }

    /// Records the latency of `count` replies.
    /// - Parameter commandIndex: the command's index in `RESPCommandTable.metricNames`.
    func record(_ commandIndex: Int, nanoseconds: Int64, count: Int) {
        histogram(of: commandIndex).recordNanoseconds(nanoseconds, count: count)
    }

    /// Attaches the trace of a recorded command as an exemplar.
    func addExemplar(_ commandIndex: Int, by trace: TraceContext, nanoseconds: Int64) {
        histogram(of: commandIndex).addExemplar(by: trace, nanoseconds: nanoseconds)
    }

    private func histogram(of commandIndex: Int) -> TimeHistogram {
        if let histogram = histograms[commandIndex] { return histogram }
        let histogram = metrics.latencies(
            "interlock_resp_command_seconds", [("command", RESPCommandTable.metricNames[commandIndex])])
        histograms[commandIndex] = histogram
        return histogram
    }
}

/// The arrival times of a connection's commands that have no reply yet.
struct CommandArrivals {
    /// Consecutive commands of one kind that arrived together.
    private struct Run {
        /// The command's index in `RESPCommandTable.metricNames`.
        var commandIndex: Int
        var arrivedAt: Instant
        /// The tag of the first command.
        var firstTag: UInt64
        var count: Int
    }

    private var runs = Deque<Run>()
    /// The traces of commands whose replies are not written yet, by tag.
    private var traces: [UInt64: TraceContext] = [:]

    var isEmpty: Bool { runs.isEmpty }

    /// Records the arrival of a command.
    /// - Parameters:
    ///   - commandIndex: the command's index in `RESPCommandTable.metricNames`.
    ///   - tag: the command's tag, which is higher than all earlier ones.
    mutating func recordArrival(_ commandIndex: Int, tag: UInt64, at instant: Instant) {
        if let last = runs.last, last.commandIndex == commandIndex, last.arrivedAt == instant,
            last.firstTag &+ UInt64(last.count) == tag
        {
            runs[runs.count - 1].count += 1
        } else {
            runs.append(Run(commandIndex: commandIndex, arrivedAt: instant, firstTag: tag, count: 1))
        }
    }

    /// Records the arrival of `count` repeats of the last command.
    mutating func recordRepeats(_ count: Int) {
        if !runs.isEmpty { runs[runs.count - 1].count += count }
    }

    /// Records that the command with this tag belongs to this trace.
    mutating func recordTrace(_ tag: UInt64, by trace: TraceContext) { traces[tag] = trace }

    /// Records the latencies of the commands with lower tags, whose replies are written.
    mutating func recordReplies(before tag: UInt64, now: Instant, _ times: CommandTimes) {
        while let first = runs.first, first.firstTag < tag {
            let count = min(first.count, Int(tag &- first.firstTag))
            let nanoseconds = now.nanoseconds - first.arrivedAt.nanoseconds
            times.record(first.commandIndex, nanoseconds: nanoseconds, count: count)
            if !traces.isEmpty {
                for (tag, trace) in traces where tag >= first.firstTag && tag < first.firstTag &+ UInt64(count) {
                    times.addExemplar(first.commandIndex, by: trace, nanoseconds: nanoseconds)
                    traces[tag] = nil
                }
            }
            if count == first.count {
                runs.removeFirst()
            } else {
                runs[0].firstTag &+= UInt64(count)
                runs[0].count -= count
            }
        }
    }
}
