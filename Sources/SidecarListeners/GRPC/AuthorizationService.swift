internal import EnvoyMessages
internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import NIOHTTP1
internal import SidecarTelemetry
internal import SwiftProtobuf

/// Implements `envoy.service.auth.v3.Authorization`: decides whether a request may proceed to a service, by its
/// breaker, limits and concurrency slots. Envoy names the service in `context_extensions`.
///
/// With `outcome: access_log`, a request takes a permit. Envoy keeps the permit's ID in its dynamic metadata, and sends
/// it to `AccessLogService` with the outcome of the call. Without this setting, nothing reports the outcome, so the
/// request takes no permit, as with `/v1/check`.
final class AuthorizationService {
    static let name = "envoy.service.auth.v3.Authorization"

    private typealias Request = Envoy_Service_Auth_V3_CheckRequest
    private typealias Response = Envoy_Service_Auth_V3_CheckResponse

    /// The dynamic metadata in which Envoy keeps a permit while the call is in progress.
    enum Metadata {
        /// The namespace of the metadata, which does not depend on the filter's name.
        static let filter = "envoy.filters.http.ext_authz"
        static let permit = "interlock.permit"
        static let service = "interlock.service"
    }

    /// The parameters of a check.
    private struct CheckParameters {
        var service: String
        var subject: String?
        var cost: Int64
        /// Whether Envoy reports the outcome.
        var isReported: Bool

        /// Reads the parameters from the context extensions.
        /// - Throws: `HTTPProblem` if a context extension is missing or invalid.
        init(_ attributes: Envoy_Service_Auth_V3_AttributeContext) throws {
            let extensions = attributes.contextExtensions
            guard let service = extensions["service"] else {
                throw HTTPProblem(.invalid, "context_extensions: service is missing; expected the name of a configured service")
            }
            self.service = service
            cost = try CheckRoutes.cost(extensions["cost"])
            subject =
                extensions["subject_header"].flatMap { attributes.request.http.headers[$0.lowercased()] } ?? extensions["subject"]
            switch extensions["outcome"] {
            case nil: isReported = false
            case "access_log": isReported = true
            case let other?:
                throw HTTPProblem(
                    .invalid, "context_extensions: outcome: expected access_log or no outcome, got \"\(Excerpt(other))\"")
            }
        }
    }

    /// The maximum number of header fields in the caller's request, and of context extensions in Envoy's configuration.
    private static let maximumFields = 1000

    private let coordinator: LoopBoundCoordinator

    init(coordinator: LoopBoundCoordinator) {
        self.coordinator = coordinator
    }

    func methods(in metrics: PrometheusRegistry) -> [GRPCMethod] {
        [GRPCMethod("/\(Self.name)/Check", in: metrics) { [self] in check($0, $1) }]
    }

    private func check(_ call: GRPCCall, _ message: ByteBuffer) {
        // These checks come before decoding, which would take memory for each field. The header fields come from the
        // caller, so the caller is denied.
        guard message.countOfProtobufFields(1, 4, 2, 3) <= Self.maximumFields else {
            return call.respond(Self.denied(HTTPProblem(.invalid, "a request can have at most \(Self.maximumFields) fields")))
        }
        guard message.countOfProtobufFields(1, 10) <= Self.maximumFields else {
            return call.fail(.invalidArgument, "a request can have at most \(Self.maximumFields) context_extensions")
        }
        guard let request = call.request(Request.self, message) else { return }
        do {
            let parameters = try CheckParameters(request.attributes)
            // The subject comes from the caller. If the call failed instead, a filter that allows requests on errors
            // would let the caller pass.
            if let subject = parameters.subject, (try? ResourceName(subject)) == nil {
                return call.respond(Self.denied(HTTPProblem(.invalid, "subject: \"\(Excerpt(subject))\" is not a valid name")))
            }
            let service = try coordinator.service(parameters.service).get()
            if parameters.isReported {
                checkWithPermit(call, parameters, service)
            } else {
                checkWithoutPermit(call, parameters, service)
            }
        } catch let error as InterlockError {
            call.fail(HTTPProblem(error))
        } catch {
            call.fail(error as? HTTPProblem ?? HTTPProblem(.invalid, "\(error)"))
        }
    }

    // MARK: With a permit

    private func checkWithPermit(_ call: GRPCCall, _ parameters: CheckParameters, _ service: ServiceReference) {
        let pending = coordinator.acquirePermit(
            service, cost: parameters.cost, subject: parameters.subject, waitMilliseconds: 0, now: coordinator.now(),
            completion: Completion { [self] _, result in
                guard !call.hasEnded else { return false }
                switch result {
                case .granted(let permit, _):
                    var response = Self.pass
                    response.dynamicMetadata.fields = [
                        Metadata.permit: .init(stringValue: permit.description),
                        Metadata.service: .init(stringValue: parameters.service),
                    ]
                    call.respond(response)
                case .refused(let reason, let state, let retryAfter):
                    call.respond(
                        Self.denied(
                            .refused(
                                reason, state, service: parameters.service, subject: parameters.subject, retryAfter: retryAfter,
                                cause: coordinator.breakerCause(ofService: parameters.service),
                                limits: coordinator.definition(ofService: parameters.service)?.limits ?? [])))
                case .failed(let error): Self.fail(call, error)
                }
                return true
            })
        if let pending { call.onCancellation = { [coordinator] in coordinator.cancel(pending) } }
    }

    // MARK: Without a permit

    private func checkWithoutPermit(_ call: GRPCCall, _ parameters: CheckParameters, _ service: ServiceReference) {
        let name = parameters.service
        let now = coordinator.now()
        if let problem = CheckRoutes.refusal(by: coordinator, of: service, named: name, now: now) {
            return call.respond(Self.denied(problem))
        }
        guard coordinator.hasLimits(service) else { return call.respond(Self.pass) }
        _ = coordinator.take(
            service, cost: parameters.cost, subject: parameters.subject, waitMilliseconds: 0, now: now,
            completion: Completion { [coordinator] _, result in
                guard !call.hasEnded else { return false }
                switch result {
                case .decided(let decision), .decidedBatch(let decision, _, _):
                    let fields = RateLimitFields(
                        decision, limits: coordinator.definition(ofService: name)?.limits ?? [],
                        hasSubject: parameters.subject != nil)
                    guard decision.isAllowed else {
                        call.respond(Self.denied(.limited(decision, fields, service: name, mayWait: false)))
                        break
                    }
                    var headers = HTTPHeaders()
                    fields.add(to: &headers)
                    var response = Self.pass
                    response.okResponse.responseHeadersToAdd = Self.options(headers)
                    call.respond(response)
                case .failed(let error): Self.fail(call, error)
                }
                return true
            })
    }

    // MARK: Responses

    private static let pass = Response.with { $0.okResponse = .init() }

    /// Returns the response that Envoy sends to the caller instead of the service's.
    private static func denied(_ problem: HTTPProblem) -> Response {
        var headers = problem.headers
        headers.replaceOrAdd(name: "Content-Type", value: HTTPProblem.mediaType)
        var body = ByteBuffer()
        JSONValue.write(problem.orderedFields, into: &body)
        return Response.with {
            $0.status.code = Int32(GRPCStatus(problem.code).rawValue)
            $0.status.message = problem.detail
            $0.deniedResponse.status.code = .init(rawValue: Int(problem.status.code)) ?? .serviceUnavailable
            $0.deniedResponse.headers = options(headers)
            $0.deniedResponse.body = String(buffer: body)
        }
    }

    /// Denies the request if the caller is at fault, for example with no subject or an excessive cost; otherwise fails
    /// the call.
    private static func fail(_ call: GRPCCall, _ error: InterlockError) {
        let problem = HTTPProblem(error)
        if problem.code == .invalid { call.respond(denied(problem)) } else { call.fail(problem) }
    }

    private static func options(_ headers: HTTPHeaders) -> [Envoy_Config_Core_V3_HeaderValueOption] {
        headers.map { name, value in
            .with {
                $0.header.key = name
                $0.header.value = value
            }
        }
    }
}

extension Envoy_Service_Auth_V3_CheckResponse: GRPCMessage {}

extension GRPCCall {
    fileprivate func fail(_ problem: HTTPProblem) {
        fail(problem.code == .unknownService ? .notFound : GRPCStatus(problem.code), problem.detail)
    }
}
