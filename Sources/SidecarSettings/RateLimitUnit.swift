/// The units of Envoy's limits. A month has 30 days and a year 365, as in the reference implementation.
package enum RateLimitUnit: String, CaseIterable {
    case second, minute, hour, day, week, month, year

    package var window: Duration {
        switch self {
        case .second: .seconds(1)
        case .minute: .seconds(60)
        case .hour: .seconds(3600)
        case .day: .seconds(86_400)
        case .week: .seconds(7 * 86_400)
        case .month: .seconds(30 * 86_400)
        case .year: .seconds(365 * 86_400)
        }
    }
}
