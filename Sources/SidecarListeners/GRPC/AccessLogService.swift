internal import CoreMetrics
internal import EnvoyMessages
internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import SidecarTelemetry
internal import SwiftProtobuf

/// Implements `envoy.service.accesslog.v3.AccessLogService`: reads from Envoy's access log the outcomes of the calls
/// that `AuthorizationService` permitted. Entries without a permit are only counted.
final class AccessLogService {
    static let name = "envoy.service.accesslog.v3.AccessLogService"
    /// The maximum number of entries in one message, which is more than Envoy batches.
    private static let maximumEntries = 10_000

    private let coordinator: LoopBoundCoordinator
    /// Counts the reports that the coordinator accepted.
    private let reported = counter("reported")
    /// Counts the reports of permits that had expired, and other reports that the coordinator rejected.
    private let late = counter("late")
    /// Counts the entries without a permit.
    private let foreign = counter("foreign")

    init(coordinator: LoopBoundCoordinator) {
        self.coordinator = coordinator
    }

    private static func counter(_ result: String) -> Counter {
        Counter(label: "interlock_access_log_entries_total", dimensions: [("result", result)])
    }

    func methods(in metrics: PrometheusRegistry) -> [GRPCMethod] {
        [
            GRPCMethod(
                "/\(Self.name)/StreamAccessLogs", in: metrics,
                handler: .stream { [self] call in
                    // Envoy then opens another stream, to this sidecar or to another one.
                    call.onShutdown = { [unowned call] in call.respond(Envoy_Service_Accesslog_V3_StreamAccessLogsResponse())
                    }
                    return Log(of: self, call)
                })
        ]
    }

    private final class Log: GRPCRequestStream {
        private let service: AccessLogService
        private unowned let call: GRPCCall

        init(of service: AccessLogService, _ call: GRPCCall) {
            self.service = service
            self.call = call
        }

        func messageReceived(_ message: ByteBuffer) -> Bool {
            // This check comes before decoding, which would take memory for each entry.
            guard message.countOfProtobufFields(2, 1) <= AccessLogService.maximumEntries else {
                call.fail(.resourceExhausted, "a message can have at most \(AccessLogService.maximumEntries) entries")
                return false
            }
            guard let message = call.request(Envoy_Service_Accesslog_V3_StreamAccessLogsMessage.self, message) else {
                return false
            }
            for entry in message.httpLogs.logEntry { service.take(entry) }
            return !message.httpLogs.logEntry.isEmpty
        }

        func requestEnded() { call.respond(Envoy_Service_Accesslog_V3_StreamAccessLogsResponse()) }
    }

    private func take(_ entry: Envoy_Data_Accesslog_V3_HTTPAccessLogEntry) {
        guard let (service, permit) = entry.permit else { return foreign.increment() }
        coordinator.reportPermit(
            service: service, permit: permit, OutcomeReport(entry, now: coordinator.wallTimeMilliseconds() / 1000),
            completion: Completion { [self] _, result in
                if case .success = result { reported.increment() } else { late.increment() }
                return true
            })
    }
}

extension Envoy_Service_Accesslog_V3_StreamAccessLogsResponse: GRPCMessage {}

extension Envoy_Data_Accesslog_V3_HTTPAccessLogEntry {
    /// The service and permit of a completed call; `nil` if the call has no Interlock permit or is still in progress.
    fileprivate var permit: (service: String, id: PermitID)? {
        let metadata = commonProperties.metadata.filterMetadata[AuthorizationService.Metadata.filter]
        guard [.downstreamEnd, .notSet].contains(commonProperties.accessLogType),
            let id = metadata?.fields[AuthorizationService.Metadata.permit].flatMap({ PermitID($0.stringValue) }),
            let service = metadata?.fields[AuthorizationService.Metadata.service]?.stringValue
        else { return nil }
        return (service, id)
    }
}

extension OutcomeReport {
    /// Derives the outcome of a call from an entry of Envoy's access log.
    /// - Parameter now: this host's time, as Unix time in seconds.
    init(_ entry: Envoy_Data_Accesslog_V3_HTTPAccessLogEntry, now: @autoclosure () -> Int64) {
        let common = entry.commonProperties
        let flags = common.responseFlags
        let status = entry.grpcStatus?.httpStatus ?? Int(entry.response.responseCode.value)
        if flags.isCallerOrProxyFault {
            // The service did not fail, but a long time until the caller left still counts as slow.
            self = Self.unfinished(afterMilliseconds: common.upstreamMilliseconds)
        } else if flags.upstreamMaxStreamDurationReached, common.hasTimeToFirstUpstreamRxByte {
            // Envoy's own timer ended a response in progress.
            self.init(outcome: .ok, latencyMilliseconds: common.upstreamMilliseconds, status: status == 0 ? nil : status)
        } else if flags.isServiceFault {
            self.init(outcome: .error, latencyMilliseconds: common.upstreamMilliseconds)
        } else if !common.hasUpstreamRemoteAddress || status == 0 {
            // Envoy sent the response, without the service.
            self.init(outcome: .ignore)
        } else {
            self.init(
                outcome: .ok, latencyMilliseconds: common.upstreamMilliseconds, status: status,
                retryAfterMilliseconds: entry.retryAfterMilliseconds(now: now()))
        }
    }
}

extension Envoy_Data_Accesslog_V3_ResponseFlags {
    /// Whether the caller left before the response, or Envoy's own limits rejected the call.
    fileprivate var isCallerOrProxyFault: Bool { downstreamConnectionTermination || downstreamRemoteReset || upstreamOverflow }

    /// Whether the service failed before or during its response.
    fileprivate var isServiceFault: Bool {
        noHealthyUpstream || upstreamRequestTimeout || upstreamRemoteReset || upstreamConnectionFailure
            || upstreamConnectionTermination || upstreamMaxStreamDurationReached || upstreamProtocolError || dnsResolutionFailure
    }
}

extension Envoy_Data_Accesslog_V3_AccessLogCommon {
    /// The time from the last byte of the request to the first byte of the response, as Envoy measured it.
    fileprivate var upstreamMilliseconds: Int64? {
        guard hasTimeToLastUpstreamTxByte, hasTimeToFirstUpstreamRxByte else { return nil }
        return max(0, timeToFirstUpstreamRxByte.milliseconds - timeToLastUpstreamTxByte.milliseconds)
    }
}

extension Google_Protobuf_Duration {
    /// The duration; its seconds are capped at one day.
    fileprivate var milliseconds: Int64 { min(max(0, seconds), 86_400) * 1000 + Int64(nanos) / 1_000_000 }
}

extension Envoy_Data_Accesslog_V3_HTTPAccessLogEntry {
    /// The gRPC status of the response. Envoy logs it only if `additional_response_headers_to_log` and
    /// `additional_response_trailers_to_log` name its field.
    fileprivate var grpcStatus: GRPCStatus? {
        guard let text = response.responseTrailers["grpc-status"] ?? response.responseHeaders["grpc-status"] else { return nil }
        return Int(text).map { GRPCStatus(rawValue: $0) ?? .unknown }
    }

    fileprivate func retryAfterMilliseconds(now: @autoclosure () -> Int64) -> Int64? {
        guard [429, 503].contains(response.responseCode.value) else { return nil }
        return response.responseHeaders["retry-after"].flatMap {
            RetryAfter.milliseconds($0, date: response.responseHeaders["date"], now: now())
        }
    }
}
