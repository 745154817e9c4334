import Glibc
import InterlockCommandLine
import InterlockCore

/// The options of `interlock run`, without the command.
struct RunPlan: Sendable {
    enum Purpose: Hashable, Sendable {
        /// Run the command once, if the lock is acquired within this time.
        case once(wait: Duration)
        /// Run the command whenever the lock is acquired, until the command ends by itself.
        case lead
    }

    /// The lock's name.
    var name: String
    var purpose: Purpose
    var mode: LockMode
    var ttl: Duration
    /// After a success the lease is kept until this long after it was acquired; zero: it is released at once.
    var atLeast: Duration
    /// Whether the command may never run on without a lease.
    var isStrict: Bool
    /// The label that others see of the holder; `nil` for this host's name.
    var label: String?
    /// The code to exit with when another holds the lock; with 0 nothing is said.
    var heldExitCode: Int32
    /// Whether the command gets this process' API key.
    var passesAPIKey: Bool
    var sidecar: SidecarOptions

    /// The shortest lease that a renewal over a network can be expected to keep.
    static let shortestTTL = DurationArgument(.milliseconds(200))

    /// A new token. A holder that brings its own can repeat a request whose outcome it does not know.
    func drawToken() -> String {
        OwnerToken.make(
            label: label ?? Self.hostName,
            random: (UInt64.random(in: 0...UInt64.max), UInt64.random(in: 0...UInt64.max)))
    }

    private static var hostName: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "localhost" }
        let name = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // Not every host name is a valid label.
        return (try? ResourceName(name))?.text ?? "localhost"
    }
}
