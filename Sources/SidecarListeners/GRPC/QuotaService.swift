internal import EnvoyMessages
internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import SidecarTelemetry
internal import SwiftProtobuf

/// Implements `envoy.service.rate_limit_quota.v3.RateLimitQuotaService`: assigns parts of a domain's limits to Envoys,
/// which enforce them as token buckets and report their usage. Experimental, as is Envoy's side of the protocol.
final class QuotaService {
    static let name = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService"
    /// The maximum total length of a bucket's keys and values, in bytes.
    private static let maximumBucketSize = 4096
    /// The maximum number of usages in one message, which is also the maximum number of a data plane's buckets.
    private static let maximumUsages = 10_000
    /// The maximum number of unsent responses of a stream. Beyond it, new assignments to a slow reader are dropped.
    private static let maximumUnsent = 4

    private typealias Reports = Envoy_Service_RateLimitQuota_V3_RateLimitQuotaUsageReports
    private typealias Response = Envoy_Service_RateLimitQuota_V3_RateLimitQuotaResponse

    private let calls: CoordinatorCalls

    init(calls: CoordinatorCalls) {
        self.calls = calls
    }

    func methods(in metrics: PrometheusRegistry) -> [GRPCMethod] {
        [
            GRPCMethod(
                "/\(Self.name)/StreamRateLimitQuotas", in: metrics,
                handler: .stream { [self] call in
                    call.onShutdown = { [unowned call] in call.failShuttingDown() }
                    return Stream(calls, call)
                })
        ]
    }

    /// One stream of usage reports. Its session ends when the call is over and releases the stream.
    private final class Stream: GRPCRequestStream {
        private let calls: CoordinatorCalls
        private unowned let call: GRPCCall
        private var domain = ""
        private var session: QuotaSession?

        init(_ calls: CoordinatorCalls, _ call: GRPCCall) {
            self.calls = calls
            self.call = call
        }

        func received(_ message: ByteBuffer) -> Bool {
            guard let (session, usages) = decodedReport(message) else { return false }
            session.report(usages.map(QuotaUsage.init))
            return !usages.isEmpty
        }

        /// Returns the session and the usages of a report; `nil` if the report is invalid and the call has failed.
        private func decodedReport(_ message: ByteBuffer) -> (QuotaSession, [Reports.BucketQuotaUsage])? {
            // Checked before the buckets are decoded.
            guard message.countOfProtobufFields(2) <= QuotaService.maximumUsages else {
                call.fail(.resourceExhausted, "a message can have at most \(QuotaService.maximumUsages) buckets")
                return nil
            }
            guard let reports = call.request(Reports.self, message) else { return nil }
            guard matchesDomain(reports) else {
                call.fail(
                    .invalidArgument,
                    "the domain is empty, longer than \(ResourceName.maximumBytes) bytes, or not the domain of the stream's first message"
                )
                return nil
            }
            guard let session = session ?? begin(reports) else {
                call.fail(.resourceExhausted, "too many quota streams are open; close some, or use another API key")
                return nil
            }
            guard reports.bucketQuotaUsages.allSatisfy({ Self.isWithinLimits($0.bucketID.bucket) }) else {
                call.fail(
                    .invalidArgument,
                    "a bucket can have at most \(DescriptorEntry.maximum) entries and \(QuotaService.maximumBucketSize) bytes in total"
                )
                return nil
            }
            return (session, reports.bucketQuotaUsages)
        }

        private static func isWithinLimits(_ bucket: [String: String]) -> Bool {
            bucket.count <= DescriptorEntry.maximum
                && bucket.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count } <= QuotaService.maximumBucketSize
        }

        func ended() { call.finish() }

        deinit { session?.end() }

        private func matchesDomain(_ reports: Reports) -> Bool {
            session == nil
                ? !reports.domain.isEmpty && reports.domain.utf8.count <= ResourceName.maximumBytes
                : reports.domain.isEmpty || reports.domain == domain
        }

        /// Begins a session; `nil` if there are too many.
        private func begin(_ reports: Reports) -> QuotaSession? {
            domain = reports.domain
            // A client reports a new bucket immediately, so elapsed time means that its stream was reopened.
            let isReturning = reports.bucketQuotaUsages.contains { $0.timeElapsed.seconds > 0 }
            session = calls.beginQuotaSession(
                domain: domain, address: call.connection.address, client: call.client, isReturning: isReturning
            ) { [weak call] actions in
                guard let call, call.unsent < QuotaService.maximumUnsent else { return }
                call.send(Response.with { $0.bucketAction = actions.map(Response.BucketAction.init) })
            }
            return session
        }
    }
}

extension Envoy_Service_RateLimitQuota_V3_RateLimitQuotaResponse: GRPCMessage {}

extension QuotaUsage {
    fileprivate init(_ usage: Envoy_Service_RateLimitQuota_V3_RateLimitQuotaUsageReports.BucketQuotaUsage) {
        let (sum, overflow) = usage.numRequestsAllowed.addingReportingOverflow(usage.numRequestsDenied)
        self.init(
            bucket: usage.bucketID.bucket.map { DescriptorEntry(key: $0.key, value: $0.value) },
            requests: overflow ? .max : Int64(clamping: sum))
    }
}

extension Envoy_Service_RateLimitQuota_V3_RateLimitQuotaResponse.BucketAction {
    fileprivate init(_ assignment: QuotaAction.Assignment) {
        self.init()
        for entry in assignment.bucket { bucketID.bucket[entry.key] = entry.value }
        guard assignment.action != .abandon else {
            abandonAction = .init()
            return
        }
        quotaAssignmentAction.assignmentTimeToLive = .init(seconds: QuotaRate.lifetimeSeconds)
        switch assignment.action {
        case .quota(let quota, let rate):
            quotaAssignmentAction.rateLimitStrategy.tokenBucket = .with {
                $0.maxTokens = UInt32(clamping: rate.capacity(ofPortion: quota))
                $0.tokensPerFill = .init(UInt32(clamping: quota))
                $0.fillInterval = .init(seconds: rate.seconds)
            }
        case .allow: quotaAssignmentAction.rateLimitStrategy.blanketRule = .allowAll
        case .deny: quotaAssignmentAction.rateLimitStrategy.blanketRule = .denyAll
        case .abandon: break
        }
    }
}
