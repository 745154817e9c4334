import Glibc
import InterlockCore

/// What `interlock run` was asked for, but for the command.
struct RunPlan: Sendable {
    enum Purpose: Hashable, Sendable {
        /// To run the command once, if the lock is had within this time.
        case once(patience: Duration)
        /// To run the command whenever the lock is had, until the command ends by itself.
        case lead
    }

    /// The lock's name.
    var name: String
    var purpose: Purpose
    var mode: LockMode
    var ttl: Duration
    /// After a success the lease is kept until so long after it was had; zero: it is given back at once.
    var atLeast: Duration
    /// Whether the command may never run on without a lease.
    var isStrict: Bool
    /// What others see of the holder; `nil`: this host's name.
    var label: String?
    var sidecar: SidecarOptions

    /// How long the lock is waited for when nobody says otherwise.
    static let standardPatience = DurationArgument(.seconds(10))
    /// The shortest lease that a renewal over a network can be expected to keep.
    static let shortestTTL = DurationArgument(.milliseconds(200))

    /// A token that nobody has ever had: with one of its own, a holder can ask again when it does not know what became of
    /// its request.
    func drawToken() -> String {
        OwnerToken.make(
            label: label ?? Self.hostName,
            random: (UInt64.random(in: 0...UInt64.max), UInt64.random(in: 0...UInt64.max)))
    }

    private static var hostName: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "localhost" }
        let name = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // A host may be called what a label may not.
        return (try? ResourceName(name))?.text ?? "localhost"
    }
}
