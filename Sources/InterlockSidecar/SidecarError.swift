/// Why a sidecar cannot run, for people.
public struct SidecarError: Error, Hashable, Sendable, CustomStringConvertible {
    public var description: String

    public init(_ description: String) {
        self.description = description
    }
}
