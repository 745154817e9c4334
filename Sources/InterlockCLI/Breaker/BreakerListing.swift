/// The breakers of all services.
struct BreakerListing: Answer {
    var services: [BreakerReading]

    var table: String {
        var table = Table(["SERVICE", "STATE", "FLEET", "FORCED", "CAUSE", "CALLS", "FAILED", "SLOW", "TRIPS", "SINCE"])
        for breaker in services {
            table.add([
                breaker.service, breaker.state, breaker.fleetState, breaker.forced ?? "", breaker.cause, "\(breaker.calls)",
                ReadableText.percentage(breaker.failureRate), ReadableText.percentage(breaker.slowRate), "\(breaker.trips)",
                ReadableText.moment(epochMilliseconds: breaker.sinceMilliseconds),
            ])
        }
        return table.text
    }
}
