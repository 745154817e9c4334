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
    /// The maximum number of a stream's responses that wait to be sent. Beyond it, new assignments are dropped.
    private static let maximumUnsent = 4

    private typealias Reports = Envoy_Service_RateLimitQuota_V3_RateLimitQuotaUsageReports
    private typealias Response = Envoy_Service_RateLimitQuota_V3_RateLimitQuotaResponse

    private let coordinator: LoopBoundCoordinator

    init(coordinator: LoopBoundCoordinator) {
        self.coordinator = coordinator
    }

    func methods(in metrics: PrometheusRegistry) -> [GRPCMethod] {
        [
            GRPCMethod(
                "/\(Self.name)/StreamRateLimitQuotas", in: metrics,
                handler: .stream { [self] call in
                    call.onShutdown = { [unowned call] in call.failShuttingDown() }
                    return Stream(coordinator, call)
                })
        ]
    }

    /// One stream of usage reports. Its session ends when the call ends and releases the stream.
    private final class Stream: GRPCRequestStream {
        private let coordinator: LoopBoundCoordinator
        private unowned let call: GRPCCall
        private var domain = ""
        private var session: QuotaSession?

        init(_ coordinator: LoopBoundCoordinator, _ call: GRPCCall) {
            self.coordinator = coordinator
            self.call = call
        }

        func messageReceived(_ message: ByteBuffer) -> Bool {
            guard let (session, usages) = decodedReport(message) else { return false }
            session.report(usages.map(QuotaUsage.init))
            return !usages.isEmpty
        }

        /// Returns the session and the usages of a report. Fails the call and returns `nil` if the report is invalid.
        private func decodedReport(_ message: ByteBuffer) -> (QuotaSession, [Reports.BucketQuotaUsage])? {
            // This check comes before decoding, which would take memory for each bucket.
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
                    "a bucket can have at most \(DescriptorEntry.maximumCount) entries and \(QuotaService.maximumBucketSize) bytes in total"
                )
                return nil
            }
            return (session, reports.bucketQuotaUsages)
        }

        private static func isWithinLimits(_ bucket: [String: String]) -> Bool {
            bucket.count <= DescriptorEntry.maximumCount
                && bucket.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count } <= QuotaService.maximumBucketSize
        }

        func requestEnded() { call.finish() }

        deinit { session?.end() }

        private func matchesDomain(_ reports: Reports) -> Bool {
            session == nil
                ? !reports.domain.isEmpty && reports.domain.utf8.count <= ResourceName.maximumBytes
                : reports.domain.isEmpty || reports.domain == domain
        }

        /// Begins a session, and returns it; `nil` if there are too many.
        private func begin(_ reports: Reports) -> QuotaSession? {
            domain = reports.domain
            // A data plane reports a new bucket immediately, so elapsed time means that it has reopened its stream.
            let isReturning = reports.bucketQuotaUsages.contains { $0.timeElapsed.seconds > 0 }
            session = coordinator.beginQuotaSession(
                domain: domain, address: call.connection.address, client: call.clientName, isReturning: isReturning
            ) { [weak call] actions in
                guard let call, call.unsentCount < QuotaService.maximumUnsent else { return }
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
            requestCount: overflow ? .max : Int64(clamping: sum))
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
