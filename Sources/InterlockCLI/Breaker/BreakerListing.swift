import InterlockCommandLine
import InterlockCore

/// The breakers of all services.
struct BreakerListing: CommandOutput {
    var services: [BreakerDetails]

    var table: String {
        var table = Table(["SERVICE", "STATE", "FLEET", "FORCED", "CAUSE", "CALLS", "FAILED", "SLOW", "TRIPS", "SINCE"])
        for breaker in services {
            let (status, fleet) = (breaker.status, breaker.status.fleet)
            // A closed breaker keeps the cause of its last change, which would look like a current problem.
            let cause = fleet.state == .closed && fleet.forced == nil ? "" : fleet.cause
            table.add([
                status.service, status.state.rawValue, fleet.state.rawValue, fleet.forced?.rawValue ?? "", cause,
                "\(fleet.calls)", ReadableText.percentage(fleet.failureRate), ReadableText.percentage(fleet.slowRate),
                "\(fleet.trips)", ReadableText.moment(epochMilliseconds: fleet.sinceMilliseconds),
            ])
        }
        return table.text
    }
}
