internal import NIOConcurrencyHelpers

/// The latest reading of each probed service.
package final class ProbeReadings: Sendable {
    /// Returns the reading of a service; `nil` if the service is not probed.
    package typealias Lookup = @Sendable (_ service: String) -> ProbeReading?

    private let readings = NIOLockedValueBox<[String: ProbeReading]>([:])

    package init() {}

    /// All readings, sorted by the service's name.
    package var all: [ProbeReading] { readings.withLockedValue { $0.values.sorted { $0.service < $1.service } } }

    package subscript(service: String) -> ProbeReading? {
        readings.withLockedValue { $0[service] }
    }

    /// Changes the reading of a service, after creating it if needed.
    package func update(_ service: String, _ change: (inout ProbeReading) -> Void) {
        readings.withLockedValue { change(&$0[service, default: ProbeReading(service: service)]) }
    }

    package func remove(_ service: String) {
        _ = readings.withLockedValue { $0.removeValue(forKey: service) }
    }
}
