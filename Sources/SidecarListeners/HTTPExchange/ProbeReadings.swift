internal import NIOConcurrencyHelpers

/// What is known of each probed service, at most one reading each.
package final class ProbeReadings: Sendable {
    /// What is known of a service's probes; `nil`: it is not probed.
    package typealias Lookup = @Sendable (_ service: String) -> ProbeReading?

    private let readings = NIOLockedValueBox<[String: ProbeReading]>([:])

    package init() {}

    /// By name.
    package var all: [ProbeReading] { readings.withLockedValue { $0.values.sorted { $0.service < $1.service } } }

    package subscript(service: String) -> ProbeReading? {
        readings.withLockedValue { $0[service] }
    }

    /// Begins or goes on with a service's reading.
    package func update(_ service: String, _ change: (inout ProbeReading) -> Void) {
        readings.withLockedValue { change(&$0[service, default: ProbeReading(service: service)]) }
    }

    package func remove(_ service: String) {
        _ = readings.withLockedValue { $0.removeValue(forKey: service) }
    }
}
