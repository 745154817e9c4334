internal import Hiredis

/// Why a sidecar cannot run, for people.
public struct SidecarError: Error, Hashable, Sendable, CustomStringConvertible {
    public var description: String

    public init(_ description: String) {
        self.description = description
    }

    /// A door cannot be opened.
    init(cannotListen place: String, _ error: any Error) {
        self.init("\(place): cannot listen there: \(NetworkReason(error))")
    }
}

/// Which Interlock this is.
public enum SidecarVersion {
    /// Semantic version of the sidecar, its messages and its scripts.
    public static let current = "0.2.0"
}
