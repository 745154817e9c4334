internal import Hiredis

/// Why a sidecar cannot run, for people.
package struct SidecarError: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }

    /// A door cannot be opened.
    init(cannotListen place: String, _ error: any Error) {
        self.init("\(place): cannot listen there: \(NetworkReason(error))")
    }
}
