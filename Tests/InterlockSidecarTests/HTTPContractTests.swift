import Interlock
import Logging
import NIOCore
import NIOHTTP1
import Testing

@testable import InterlockSidecar
@testable import SidecarConsole
@testable import SidecarListeners
@testable import SidecarProxy
@testable import SidecarSettings
@testable import SidecarTelemetry

@Suite("HTTP API: the contract")
struct HTTPContractTests {
    /// The methods that the contract may use.
    private static let methods = ["get", "put", "post", "delete", "patch", "head", "options", "trace"]

    /// Returns `METHOD /path` of each operation in openapi.yaml, which indents paths by two spaces and methods by four.
    private static func documented(_ contract: String) -> Set<String> {
        var path = ""
        var found: Set<String> = []
        for line in contract.split(separator: "\n") {
            if line.hasPrefix("  /"), line.hasSuffix(":") { path = String(line.dropFirst(2).dropLast()) }
            if line.hasPrefix("components:") { break }
            guard let method = methods.first(where: { line.hasPrefix("    \($0):") }) else { continue }
            found.insert("\(method.uppercased()) \(path)")
        }
        return found
    }

    @Test("Every route is in the contract, and every operation of the contract has a route")
    func everyRouteIsInContract() async throws {
        try await HTTPTestAPI.with { api in
            let eventLoop = api.coordinator.eventLoop
            let live = try await LiveHub.start(for: api.coordinator)
            let setup = ListenerSetup(
                coordinator: api.coordinator, access: AccessControl(keys: []), certificate: nil, listen: ListenSettings(),
                metrics: PrometheusRegistry(), logger: .init(label: "test"), liveView: live.source)
            let routes = try await eventLoop.submit {
                Set(
                    HTTPService(setup, live: live.value).routes.flatMap { route in
                        (route.method.map { [$0.rawValue] } ?? Self.methods.map { $0.uppercased() }).map { "\($0) \(route.path)" }
                    })
            }.get()
            #expect(Self.documented(HealthRoutes.contract) == routes)
        }
    }

    @Test("Every operation in the contract answers")
    func everyOperationInContractAnswers() async throws {
        try await HTTPTestAPI.with { api in
            let contract = try await api.client.send("GET", "/openapi.yaml")
            #expect(contract.status == 200)
            #expect(contract.headers["content-type"] == "application/yaml")
            let operations = Self.documented(contract.body)
            #expect(operations.count > 15)
            for operation in operations where operation != "GET /v1/events" {
                let words = operation.split(separator: " ")
                let path = words[1].replacing("{name}", with: "a").replacing("{service}", with: "catalog")
                    .replacing("{id}", with: "x").replacing("{path}", with: "x")
                let reply = try await api.client.send(String(words[0]), String(path), words[0] == "GET" ? nil : "{}")
                #expect(reply.status != 405, "\(operation)")
                #expect(reply.text("code") != "unknown_path", "\(operation)")
                #expect(reply.status < 500, "\(operation)")
            }
        }
    }

    /// Generated clients send the default of a parameter with every request. Combined with the field of the same
    /// meaning, it is rejected as a duplicate; in a view without the parameter, as unknown.
    @Test("No parameter in the contract has a default, which a generated client would send")
    func parameterDefaults() {
        let lines = HealthRoutes.contract.split(separator: "\n")
        let offending = lines.filter { ($0.contains("in: query") || $0.contains("in: header")) && $0.contains("default:") }
        #expect(offending.isEmpty)
    }

    /// Generators invent names such as LockModeType2Type1 for anonymous enumerations.
    @Test("Every enumeration in the contract is a named schema without null")
    func enumerationsAreNamedSchemasWithoutNull() {
        let lines = HealthRoutes.contract.split(separator: "\n")
        let offending = lines.filter { line in
            guard line.contains("enum:") else { return false }
            // Schema names are indented by four spaces, their members by six.
            let indentation = line.prefix { $0 == " " }.count
            return indentation > 6 || line.contains("null")
        }
        #expect(offending.isEmpty)
    }

    @Test("A lease that too few replicas acknowledge is a problem with its own code")
    func unreplicated() {
        let problem = HTTPProblem(InterlockError(.unreplicated, "only 0 of 1 replicas acknowledged the lock in time"))
        #expect(problem.code == .unreplicated)
        #expect(problem.status.code == 503)
    }

    @Test("Every problem code is in the contract")
    func everyProblemCodeIsInContract() {
        for code in HTTPProblem.Code.allCases {
            #expect(HealthRoutes.contract.contains("        - \(code.rawValue)\n"), "\(code)")
        }
    }
}
