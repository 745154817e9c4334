internal import CoreMetrics
internal import EnvoyMessages
internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import SidecarTelemetry
internal import SwiftProtobuf

/// `envoy.service.accesslog.v3.AccessLogService`: reads from Envoy's access log what became of the calls that `AuthorizationService` gave
/// permits for. Entries without a permit say nothing here.
final class AccessLogService {
    static let name = "envoy.service.accesslog.v3.AccessLogService"
    /// Of one message: more than Envoy puts together.
    private static let mostEntries = 10_000

    private let calls: CoordinatorCalls
    private let reported = counter("reported")
    private let late = counter("late")
    private let foreign = counter("foreign")

    init(calls: CoordinatorCalls) {
        self.calls = calls
    }

    private static func counter(_ result: String) -> Counter {
        Counter(label: "interlock_access_log_entries_total", dimensions: [("result", result)])
    }

    func methods(in metrics: PrometheusRegistry) -> [GRPCMethod] {
        [
            GRPCMethod(
                "/\(Self.name)/StreamAccessLogs", in: metrics,
                handler: .stream { [self] call in
                    // Envoy opens another one, here or where it is balanced to.
                    call.whenGoingDown = { [unowned call] in call.answer(Envoy_Service_Accesslog_V3_StreamAccessLogsResponse()) }
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

        func received(_ message: ByteBuffer) -> Bool {
            // Before they are all decoded.
            guard message.countOfProtobufFields(2, 1) <= AccessLogService.mostEntries else {
                call.fail(.resourceExhausted, "a message has at most \(AccessLogService.mostEntries) entries")
                return false
            }
            guard let message = call.request(Envoy_Service_Accesslog_V3_StreamAccessLogsMessage.self, message) else {
                return false
            }
            for entry in message.httpLogs.logEntry { service.take(entry) }
            return !message.httpLogs.logEntry.isEmpty
        }

        func ended() { call.answer(Envoy_Service_Accesslog_V3_StreamAccessLogsResponse()) }
    }

    private func take(_ entry: Envoy_Data_Accesslog_V3_HTTPAccessLogEntry) {
        guard let (service, permit) = entry.permit else { return foreign.increment() }
        calls.reportPermit(
            service: service, permit: permit, OutcomeReport(entry, now: calls.wallTime() / 1000),
            completion: Completion { [self] _, result in
                if case .success = result { reported.increment() } else { late.increment() }
                return true
            })
    }
}

extension Envoy_Service_Accesslog_V3_StreamAccessLogsResponse: GRPCMessage {}

extension Envoy_Data_Accesslog_V3_HTTPAccessLogEntry {
    /// What the call was permitted by; `nil`: by nothing of ours, or it is not over yet.
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
    /// The outcome of a call by Envoy's access log.
    /// - Parameter now: this host's time, in seconds since 1970.
    init(_ entry: Envoy_Data_Accesslog_V3_HTTPAccessLogEntry, now: @autoclosure () -> Int64) {
        let common = entry.commonProperties
        let flags = common.responseFlags
        let status = entry.grpcStatus?.httpStatus ?? Int(entry.response.responseCode.value)
        if flags.isOfOthers {
            // The caller abandoned it, but a long time up to then still counts as slow.
            self = Self.unfinished(afterMilliseconds: common.upstreamMilliseconds)
        } else if flags.upstreamMaxStreamDurationReached, common.hasTimeToFirstUpstreamRxByte {
            // Envoy's own timer ended an answer in progress.
            self.init(outcome: .ok, latencyMilliseconds: common.upstreamMilliseconds, status: status == 0 ? nil : status)
        } else if flags.isOfService {
            self.init(outcome: .error, latencyMilliseconds: common.upstreamMilliseconds)
        } else if !common.hasUpstreamRemoteAddress || status == 0 {
            // Envoy answered by itself.
            self.init(outcome: .ignore)
        } else {
            self.init(
                outcome: .ok, latencyMilliseconds: common.upstreamMilliseconds, status: status,
                retryAfterMilliseconds: entry.retryAfterMilliseconds(now: now()))
        }
    }
}

extension Envoy_Data_Accesslog_V3_ResponseFlags {
    /// The caller did not wait for the answer, or Envoy let no further call through.
    fileprivate var isOfOthers: Bool { downstreamConnectionTermination || downstreamRemoteReset || upstreamOverflow }

    /// The service failed without an answer, or within it.
    fileprivate var isOfService: Bool {
        noHealthyUpstream || upstreamRequestTimeout || upstreamRemoteReset || upstreamConnectionFailure
            || upstreamConnectionTermination || upstreamMaxStreamDurationReached || upstreamProtocolError || dnsResolutionFailure
    }
}

extension Envoy_Data_Accesslog_V3_AccessLogCommon {
    /// From the last byte of the request to the first of the answer, as the proxy has it.
    fileprivate var upstreamMilliseconds: Int64? {
        guard hasTimeToLastUpstreamTxByte, hasTimeToFirstUpstreamRxByte else { return nil }
        return max(0, timeToFirstUpstreamRxByte.milliseconds - timeToLastUpstreamTxByte.milliseconds)
    }
}

extension Google_Protobuf_Duration {
    /// What is longer than a day counts as one.
    fileprivate var milliseconds: Int64 { min(max(0, seconds), 86_400) * 1000 + Int64(nanos) / 1_000_000 }
}

extension Envoy_Data_Accesslog_V3_HTTPAccessLogEntry {
    /// Envoy logs these fields where its `additional_response_headers_to_log` and `additional_response_trailers_to_log` name them.
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
