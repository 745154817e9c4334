import ArgumentParser
import InterlockCommandLine
import InterlockCore
import SidecarListeners

/// The output of a breaker as a sidecar sees it.
struct BreakerDetails: CommandOutput, Sendable {
    let status: BreakerStatus

    init(_ status: BreakerStatus) {
        self.status = status
    }

    var json: JSONValue {
        JSONValue.object(ServiceReply.fields(status, probe: nil)).adding("probe", status.probe?.json).withoutNulls
    }

    func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }

    var table: String {
        let fleet = status.fleet
        return Table([
            "service": status.service,
            "state": status.state.rawValue,
            "in the fleet": fleet.state.rawValue,
            "forced": forcedText,
            "cause": fleet.cause,
            "reason": fleet.reason,
            "by": fleet.changedBy,
            "opened locally": status.ownCause ?? "no",
            "probe": status.probe?.summary ?? "none",
            "since": ReadableText.moment(epochMilliseconds: fleet.sinceMilliseconds),
            "until": ReadableText.moment(epochMilliseconds: fleet.untilMilliseconds),
            "calls": "\(fleet.calls)",
            "failed": ReadableText.percentage(fleet.failureRate),
            "slow": ReadableText.percentage(fleet.slowRate),
            "trips": "\(fleet.trips)",
            "generation": "\(fleet.generation)",
        ]).text
    }

    private var forcedText: String {
        guard let forced = status.fleet.forced?.rawValue else { return "no" }
        let end = ReadableText.moment(epochMilliseconds: max(0, status.fleet.forcedUntilMilliseconds))
        return end.isEmpty ? forced : "\(forced) until \(end)"
    }
}

extension ProbeStatus {
    fileprivate var json: JSONValue {
        .object([
            "prober": .string(prober), "finding": JSONValue(finding), "reason": JSONValue(reason),
            "at_ms": JSONValue(atMilliseconds), "duration_ms": JSONValue(duration?.wholeMilliseconds),
            "failures": .integer(failures), "successes": .integer(successes),
        ])
    }

    /// The state of the probe in one line: `bad in 12ms, 3 in a row: status 503, expected 200..399`.
    var summary: String {
        let proberText =
            switch prober {
            case "another": "another sidecar probes"
            case "undecided": "the sidecar that probes is being elected"
            default: "this sidecar probes"
            }
        guard let finding, prober != "another" else { return proberText }
        // An inconclusive probe neither continues nor ends a series of results.
        let seriesLength = finding == "bad" ? failures : finding == "good" ? successes : 0
        let series = seriesLength > 1 ? ", \(seriesLength) in a row" : ""
        let time = duration.map { " in \(ReadableText.span(milliseconds: $0.wholeMilliseconds))" } ?? ""
        return "\(finding)\(time)\(series)\(reason.map { ": \($0)" } ?? "")"
    }
}

/// The states that an operator can force.
enum ForcedState: String, CaseIterable, ExpressibleByArgument, Sendable {
    case open, closed, disabled
    /// No forced state, so that the breaker acts on the outcomes of calls.
    case auto

    var forced: BreakerSnapshot.Forced? { self == .auto ? nil : BreakerSnapshot.Forced(rawValue: rawValue) }
}
