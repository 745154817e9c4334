import Glibc
import InterlockCommandLine
import InterlockCore

/// The options of `interlock run`, without the command.
struct RunPlan: Sendable {
    enum Purpose: Hashable, Sendable {
        /// Run the command once, if the lock is acquired within this time.
        case once(wait: Duration)
        /// Run the command each time the lock is acquired, until it exits without losing its lease.
        case lead
    }

    /// The lock's name.
    var name: String
    var purpose: Purpose
    var mode: LockMode
    var ttl: Duration
    /// The minimum time to hold the lock if the command succeeds, measured from the acquisition; zero to release the
    /// lock immediately.
    var minimumHold: Duration
    /// Whether the command must be killed as soon as its lease ends.
    var isStrict: Bool
    /// The label of the holder that others see; `nil` for the name of this host.
    var label: String?
    /// The exit code if another client holds the lock. With 0, nothing is printed.
    var heldExitCode: Int32
    /// Whether the command's environment keeps this process's API key.
    var passesAPIKey: Bool
    var sidecar: SidecarOptions

    /// The shortest lease that can reliably be renewed over a network.
    static let minimumTTL = DurationArgument(.milliseconds(200))

    /// Returns a new random token. With it, a request whose outcome is unknown can be repeated.
    func drawToken() -> String {
        OwnerToken.make(
            label: label ?? Self.hostName,
            random: (UInt64.random(in: 0...UInt64.max), UInt64.random(in: 0...UInt64.max)))
    }

    private static var hostName: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "localhost" }
        let name = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // A host name is not always a valid label.
        return (try? ResourceName(name))?.text ?? "localhost"
    }
}
