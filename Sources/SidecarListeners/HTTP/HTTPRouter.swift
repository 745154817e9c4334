internal import NIOHTTP1
internal import SidecarSettings
package import SidecarTelemetry

/// Finds the route of a request. The path is split first, and each segment is percent-decoded once: `%2F` is a slash
/// within a name, so every API can address the same locks.
package struct HTTPRouter: Sendable {
    /// The route of a request, and the values of the path's variable segments.
    struct Match: Sendable {
        let route: HTTPRoute
        let parameters: [(name: String, value: String)]
        let counters: HTTPRouteCounters
    }

    private struct Path: Sendable {
        let segments: [Segment]
        let hasTail: Bool
        var routes: [(route: HTTPRoute, counters: HTTPRouteCounters)]
    }

    private enum Segment: Sendable, Equatable {
        case literal(String)
        case variable(String)
    }

    /// The counters of requests that were rejected before they reached a route.
    let rejections: HTTPRefusalCounters
    private let paths: [Path]

    package init(routes: [HTTPRoute], metrics: PrometheusRegistry) {
        rejections = HTTPRefusalCounters(in: metrics)
        var paths: [Path] = []
        for route in routes {
            let entry = (route, HTTPRouteCounters(route, in: metrics))
            let segments = Self.split(route.path[...]).map(Self.segment)
            if let pathIndex = paths.firstIndex(where: { $0.segments == segments }) {
                paths[pathIndex].routes.append(entry)
            } else {
                paths.append(Path(segments: segments, hasTail: route.hasTail, routes: [entry]))
            }
        }
        // Paths with a tail are checked first, because a busy sidecar receives most of its requests there.
        self.paths = paths.filter(\.hasTail) + paths.filter { !$0.hasTail }
    }

    /// Returns the route for a method and a path. O(n) in paths.
    /// - Throws: if there is no such path, if the path does not allow the method, or if a segment is not
    ///   percent-encoded UTF-8.
    func match(method: HTTPMethod, path: Substring) throws(HTTPProblem) -> Match {
        let parts = Self.split(path)
        for candidate in paths {
            guard let parameters = try Self.parameters(of: candidate, in: parts) else { continue }
            let entry =
                candidate.routes.first { $0.route.method == method || $0.route.method == nil }
                ?? candidate.routes.first { method == .HEAD && $0.route.servesHead }
            guard let entry else { throw HTTPProblem.methodNotAllowed(method, allowed: Self.methods(of: candidate)) }
            return Match(route: entry.route, parameters: parameters, counters: entry.counters)
        }
        throw HTTPProblem.noSuchPath
    }

    /// Returns the redirect to the console for a browser's request for `/`, or any request for `/console/`; `nil` for
    /// all others.
    static func redirect(_ head: HTTPRequestHead) -> HTTPResponse? {
        guard head.method == .GET || head.method == .HEAD else { return nil }
        let path = HTTPTarget(head.uri).path
        let isBrowser = head.headers["Accept"].contains { $0.lowercased().contains("text/html") }
        guard path == "/console/" || (path == "/" && isBrowser) else { return nil }
        var response = HTTPResponse(.seeOther)
        response.headers.add(name: "Location", value: "/console")
        return response
    }

    private static func methods(of path: Path) -> [String] {
        path.routes.flatMap { entry in
            [entry.route.method?.rawValue, entry.route.servesHead ? "HEAD" : nil].compactMap(\.self)
        }
    }

    /// Returns the values of a path's variable segments; `nil` if the path does not match.
    private static func parameters(of path: Path, in parts: [Substring]) throws(HTTPProblem) -> [(name: String, value: String)]? {
        let segments = path.hasTail ? path.segments.dropLast() : path.segments[...]
        guard path.hasTail ? parts.count >= segments.count : parts.count == segments.count else { return nil }
        for case (.literal(let text), let part) in zip(segments, parts) where text != part { return nil }
        var parameters: [(name: String, value: String)] = []
        for case (.variable(let name), let part) in zip(segments, parts) {
            guard let decoded = PercentEncoding.decode(part) else {
                throw HTTPProblem(.invalid, "the path segment {\(name)} is not percent-encoded UTF-8")
            }
            parameters.append((name, decoded))
        }
        return parameters
    }

    private static func split(_ path: Substring) -> [Substring] {
        path.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
    }

    private static func segment(_ text: Substring) -> Segment {
        text.hasPrefix("{") ? .variable(String(text.dropFirst().dropLast())) : .literal(String(text))
    }
}
