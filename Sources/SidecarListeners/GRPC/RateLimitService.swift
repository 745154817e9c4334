internal import CoreMetrics
package import EnvoyMessages
internal import Interlock
package import InterlockCore
internal import Logging
internal import NIOCore
internal import SidecarSettings
internal import SidecarTelemetry
internal import SwiftProtobuf

/// Implements `envoy.service.ratelimit.v3.RateLimitService`: gets the decision of a request's domain, and responds with
/// Envoy's messages.
final class RateLimitService {
    static let name = "envoy.service.ratelimit.v3.RateLimitService"
    /// The maximum number of descriptors in one request.
    static let maximumDescriptors = 1000
    /// The minimum time between two log lines about unknown domains.
    private static let logInterval = TimeAmount.minutes(1)

    private let coordinator: LoopBoundCoordinator
    private let logger: Logger
    private let unknownDomains = Counter(label: "interlock_descriptor_unknown_domains_total")
    private var nextLogLineAt = NIODeadline.uptimeNanoseconds(0)

    init(coordinator: LoopBoundCoordinator, logger: Logger) {
        self.coordinator = coordinator
        self.logger = logger
    }

    func methods(in metrics: PrometheusRegistry) -> [GRPCMethod] {
        [GRPCMethod("/\(Self.name)/ShouldRateLimit", in: metrics) { [self] in shouldRateLimit($0, $1) }]
    }

    private func shouldRateLimit(_ call: GRPCCall, _ message: ByteBuffer) {
        guard let query = RateLimitQuery(plain: message) ?? Self.query(call, message) else { return }
        let isDomainKnown = coordinator.decide(
            query.domain, query.requested,
            completion: Completion { _, result in
                switch result {
                case .decided(let decision): call.respond(RateLimitResponse(decision))
                case .failed(let error): call.fail(error.code == .unavailable ? .unavailable : .internal, error.message)
                }
                return true
            })
        guard !isDomainKnown else { return }
        // An unknown domain has no limits, as in the reference implementation.
        unknownDomains.increment()
        if call.connection.now >= nextLogLineAt {
            nextLogLineAt = call.connection.now + Self.logInterval
            logger.log(.domainUnknown, ["domain": Excerpt(query.domain).description])
        }
        let statuses = query.requested.map { _ in DescriptorStatus(isOverLimit: false, bound: .none, rule: nil) }
        call.respond(RateLimitResponse(RequestDecision(isOverLimit: false, statuses: statuses)))
    }

    /// Decodes a request. Fails the call and returns `nil` if the request is invalid.
    private static func query(_ call: GRPCCall, _ message: ByteBuffer) -> RateLimitQuery? {
        // These checks come before decoding, which would take memory for each descriptor.
        let descriptorCount = message.countOfProtobufFields(2)
        guard descriptorCount <= maximumDescriptors else { return reject(call, descriptorCount: descriptorCount) }
        guard message.countOfProtobufFields(2, 1) <= maximumDescriptors * DescriptorEntry.maximumCount else {
            return reject(call, "a descriptor can have at most \(DescriptorEntry.maximumCount) entries")
        }
        guard let request = call.request(Envoy_Service_Ratelimit_V3_RateLimitRequest.self, message) else { return nil }
        guard !request.domain.isEmpty else { return reject(call, "the domain is empty") }
        guard !request.descriptors.isEmpty else { return reject(call, descriptorCount: 0) }
        var requested: [RequestedDescriptor] = []
        requested.reserveCapacity(request.descriptors.count)
        for descriptor in request.descriptors {
            guard descriptor.entries.count <= DescriptorEntry.maximumCount else {
                return reject(
                    call, "a descriptor can have at most \(DescriptorEntry.maximumCount) entries, got \(descriptor.entries.count)"
                )
            }
            guard let requestedDescriptor = RequestedDescriptor(descriptor, hits: request.hitsAddend) else {
                return reject(
                    call, "hits can be at most \(LimitRequest.costRange.upperBound), and a limit's unit must be second to year")
            }
            requested.append(requestedDescriptor)
        }
        return RateLimitQuery(domain: request.domain, requested: requested)
    }

    private static func reject(_ call: GRPCCall, descriptorCount: Int) -> RateLimitQuery? {
        reject(call, "expected 1 to \(maximumDescriptors) descriptors, got \(descriptorCount)")
    }

    private static func reject(_ call: GRPCCall, _ reason: String) -> RateLimitQuery? {
        call.fail(.invalidArgument, reason)
        return nil
    }
}

extension RequestedDescriptor {
    /// Converts Envoy's descriptor; `nil` if its cost is too high or its limit has no known unit.
    package init?(_ descriptor: Envoy_Extensions_Common_Ratelimit_V3_RateLimitDescriptor, hits: UInt32) {
        let cost = descriptor.hasHitsAddend ? descriptor.hitsAddend.value : UInt64(max(1, hits))
        guard cost <= UInt64(LimitRequest.costRange.upperBound) else { return nil }
        self.init(
            entries: descriptor.entries.map { DescriptorEntry(key: $0.key, value: $0.value) },
            cost: descriptor.isNegativeHits ? -Int64(cost) : Int64(cost))
        guard descriptor.hasLimit else { return }
        guard let (window, name) = RateLimitUnit.window(of: descriptor.limit.unit) else { return nil }
        // The name gives the override a separate counter: two limits on one counter would enforce neither.
        let limit = Int64(descriptor.limit.requestsPerUnit)
        override = Override(limit: limit, window: window, name: "\(limit)-per-\(name)")
    }
}

extension RateLimitUnit {
    /// Returns the window of Envoy's unit, and the window's name; `nil` if the unit is unknown.
    static func window(of unit: Envoy_Type_V3_RateLimitUnit) -> (window: Duration, name: String)? {
        let rateLimitUnit: RateLimitUnit? =
            switch unit {
            case .second: .second
            case .minute: .minute
            case .hour: .hour
            case .day: .day
            case .month: .month
            case .year: .year
            case .unknown, .UNRECOGNIZED: nil
            }
        return rateLimitUnit.map { ($0.window, DurationText.shortest($0.window)) }
    }
}

extension Envoy_Service_Ratelimit_V3_RateLimitResponse.RateLimit.Unit {
    /// Creates the unit with this window; `unknown` if there is none.
    init(_ window: Duration) {
        self =
            switch RateLimitUnit.allCases.first(where: { $0.window == window }) {
            case .second: .second
            case .minute: .minute
            case .hour: .hour
            case .day: .day
            case .week: .week
            case .month: .month
            case .year: .year
            case nil: .unknown
            }
    }
}
