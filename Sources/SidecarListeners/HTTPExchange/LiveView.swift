package import InterlockCore
package import NIOCore

/// One view of the console.
package enum LiveView: Hashable, Sendable {
    /// Renders one frame of a view, a JSON object on one line with all parts of the view, and passes it to `show`.
    /// Called on the event loop.
    package typealias Source =
        @Sendable (LiveView, _ show: @escaping (ByteBuffer) -> Void) throws(InterlockError) -> Void

    case overview
    /// A page of the locks.
    /// - `search`: a part of the names to list; empty for all names.
    /// - `cursor`: the cursor that the previous page returned; "0" for the first page.
    case locks(search: ExactText, cursor: String)
    case lock(ResourceName)
    /// A page of the services.
    /// - `search`: a part of the names to list; empty for all names.
    /// - `from`: the number of services before the page.
    case services(search: ExactText, from: Int)
    case service(ExactText)
    case domains
    case grants
    case events

    /// The names of the views.
    package enum Name: String, CaseIterable, Sendable {
        case overview, locks, lock, services, service, domains, grants, events
    }

    /// Reads a client's request for a view, from the RESP or the HTTP API.
    /// - Throws: `InterlockError` with the code `invalid` if an argument is missing, malformed, or does not belong to
    ///   the view.
    package init(
        _ view: String, name: String? = nil, search: String? = nil, cursor: String? = nil, from: String? = nil
    ) throws(InterlockError) {
        guard let view = Name(rawValue: view.lowercased()) else {
            let expected = Name.allCases.map(\.rawValue).joined(separator: ", ")
            throw InterlockError(.invalid, "unknown view \"\(Excerpt(view))\"; expected one of \(expected)")
        }
        func reject(_ argument: String, _ value: String?) throws(InterlockError) {
            if value != nil { throw InterlockError(.invalid, "the view \(view.rawValue) takes no \(argument)") }
        }
        if view != .lock, view != .service { try reject("name", name) }
        if view != .locks, view != .services { try reject("search", search) }
        if view != .locks { try reject("cursor", cursor) }
        if view != .services { try reject("from", from) }
        let searchText = ExactText(search ?? "")
        guard searchText.text.utf8.count <= ResourceName.maximumBytes else {
            throw InterlockError(.invalid, "search: expected at most \(ResourceName.maximumBytes) bytes, like a name")
        }
        switch view {
        case .overview: self = .overview
        case .domains: self = .domains
        case .grants: self = .grants
        case .events: self = .events
        case .lock, .service:
            guard let name else { throw InterlockError(.invalid, "the view \(view.rawValue) needs the \(view.rawValue)'s name") }
            do throws(ResourceName.Violation) {
                let name = try ResourceName(name)
                self = view == .lock ? .lock(name) : .service(ExactText(name.text))
            } catch {
                throw InterlockError(.invalid, error.message(for: "name"))
            }
        case .locks:
            let cursor = cursor ?? "0"
            guard UInt64(cursor) != nil else {
                throw InterlockError(
                    .invalid, "cursor: expected 0 or the cursor that the previous page returned, got \"\(Excerpt(cursor))\"")
            }
            self = .locks(search: searchText, cursor: cursor)
        case .services:
            guard let from = Int32(from ?? "0"), from >= 0 else {
                throw InterlockError(.invalid, "from: expected a whole number of 0 or more, got \"\(Excerpt(from ?? ""))\"")
            }
            self = .services(search: searchText, from: Int(from))
        }
    }
}
