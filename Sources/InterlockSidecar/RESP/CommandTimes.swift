internal import DequeModule
internal import InterlockCore

/// How long the commands of the RESP door took, from when they came to when they were answered. Confined to the coordinator's event
/// loop.
final class CommandTimes {
    private let metrics: PrometheusRegistry
    /// In the order of the table, and those that are none behind them; `nil`: none was answered yet.
    private var histograms: [TimeHistogram?]

    init(in metrics: PrometheusRegistry) {
        self.metrics = metrics
        histograms = Array(repeating: nil, count: RESPCommandTable.metricNames.count)
    }

    /// - Parameter command: its place in the table.
    func record(_ command: Int, nanoseconds: Int64, count: Int) {
        histogram(of: command).recordNanoseconds(nanoseconds, count: count)
    }

    /// Names the trace of one that was recorded.
    func exemplify(_ command: Int, by trace: TraceContext, nanoseconds: Int64) {
        histogram(of: command).exemplify(by: trace, nanoseconds: nanoseconds)
    }

    private func histogram(of command: Int) -> TimeHistogram {
        if let histogram = histograms[command] { return histogram }
        let histogram = metrics.latencies("interlock_resp_command_seconds", [("command", RESPCommandTable.metricNames[command])])
        histograms[command] = histogram
        return histogram
    }
}

/// When the commands of a connection came that were not answered yet.
struct CommandArrivals {
    /// Commands of one kind that came together, one after another.
    private struct Run {
        var command: Int
        var at: Instant
        /// The first one's.
        var tag: UInt64
        var count: Int
    }

    private var runs = Deque<Run>()
    /// Of those that were traced and whose replies wait for the ones before.
    private var traces: [UInt64: TraceContext] = [:]

    var isEmpty: Bool { runs.isEmpty }

    /// - Parameter tag: higher than those before.
    mutating func came(_ command: Int, tag: UInt64, at: Instant) {
        if let last = runs.last, last.command == command, last.at == at, last.tag &+ UInt64(last.count) == tag {
            runs[runs.count - 1].count += 1
        } else {
            runs.append(Run(command: command, at: at, tag: tag, count: 1))
        }
    }

    /// So many more of the same came behind the last one.
    mutating func cameAgain(_ count: Int) {
        if !runs.isEmpty { runs[runs.count - 1].count += count }
    }

    /// The command with this tag belongs to this trace.
    mutating func traced(_ tag: UInt64, by trace: TraceContext) { traces[tag] = trace }

    /// Those with lower tags were answered.
    mutating func answered(before tag: UInt64, now: Instant, _ times: CommandTimes) {
        while let first = runs.first, first.tag < tag {
            let count = min(first.count, Int(tag &- first.tag))
            let nanoseconds = now.nanoseconds - first.at.nanoseconds
            times.record(first.command, nanoseconds: nanoseconds, count: count)
            if !traces.isEmpty {
                for (tag, trace) in traces where tag >= first.tag && tag < first.tag &+ UInt64(count) {
                    times.exemplify(first.command, by: trace, nanoseconds: nanoseconds)
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
