internal import FoundationEssentials
internal import Interlock
internal import InterlockCore
package import NIOCore
internal import NIOHTTP1
package import SidecarListeners
internal import SidecarSettings

/// The routes of the console: its page, and the data that the page shows.
package struct ConsoleRoutes {
    private let live: NIOLoopBound<LiveHub>
    private let access: AccessControl

    private static let stream = "text/event-stream"

    package init(live: NIOLoopBound<LiveHub>, access: AccessControl) {
        self.live = live
        self.access = access
    }

    package var routes: [HTTPRoute] {
        [
            HTTPRoute(.GET, "/console", for: .anyone, isTraced: false, onEventLoop: page),
            HTTPRoute(.GET, "/v1/live", servesHead: false, isTraced: false, onEventLoop: serveLive),
        ]
    }

    /// Sends the page, which contains no data. The page requests its data itself, with a key if one is required.
    private func page(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        _ = try call.query()
        responder(ConsolePage.response(requiresKey: access.requiresKey))
    }

    private func serveLive(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        let query = try call.query("view", "name", "search", "cursor", "from")
        let view = try LiveView(
            query.text("view") ?? LiveView.Name.overview.rawValue, name: query.text("name"), search: query.text("search"),
            cursor: query.text("cursor"), from: query.text("from"))
        guard call.header("Accept")?.lowercased().contains(Self.stream) ?? false else {
            return try live.value.frame(of: view) { responder(.document($0, mediaType: "application/json")) }
        }
        try live.value.follow(view, call, responder)
    }
}

/// The page: a single document that contains its markup, style and script.
private enum ConsolePage {
    private static let style = text(PackageResources.console_css)
    private static let script =
        text(PackageResources.console_elements_js).replacing("{{models}}", with: json(ViewModel.all))
        .replacing("{{diagrams}}", with: json(ViewModel.diagrams)) + text(PackageResources.console_js)
    private static let pages = (
        withoutKey: page(keys: "none"), withKey: page(keys: "required")
    )

    /// The Content Security Policy: allows only this style and script, `data:` images, and calls to this API.
    private static let policy = [
        "default-src 'none'", "script-src '\(digest(script))'", "style-src '\(digest(style))'", "connect-src 'self'",
        "img-src data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
        "require-trusted-types-for 'script'", "trusted-types 'none'",
    ].joined(separator: "; ")

    static func response(requiresKey: Bool) -> HTTPResponse {
        var response = HTTPResponse.text(requiresKey ? pages.withKey : pages.withoutKey, mediaType: "text/html; charset=utf-8")
        response.headers.add(name: "Content-Security-Policy", value: policy)
        response.headers.add(name: "Cross-Origin-Opener-Policy", value: "same-origin")
        response.headers.add(name: "Referrer-Policy", value: "no-referrer")
        response.headers.add(name: "X-Frame-Options", value: "DENY")
        return response
    }

    private static func page(keys: String) -> String {
        text(PackageResources.console_html).replacing("{{keys}}", with: keys).replacing("{{style}}", with: style)
            .replacing("{{script}}", with: script)
    }

    private static func json(_ models: some Encodable) -> String {
        (try? models.json()).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }

    private static func text(_ resource: [UInt8]) -> String { String(decoding: resource, as: UTF8.self) }

    /// Returns the digest as a source expression of a policy (CSP 3, section 2.3.1).
    private static func digest(_ text: String) -> String {
        "sha256-" + Data(SHA256Digest(of: text).bytes).base64EncodedString()
    }
}
