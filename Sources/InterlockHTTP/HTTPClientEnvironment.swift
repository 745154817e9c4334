/// The dialer and the random source of connections to servers.
package struct HTTPClientEnvironment: Sendable {
    package var dialer: any HTTPDialer
    /// Returns a random number from 0 to 1.
    package var random: @Sendable () -> Double

    package init(dialer: any HTTPDialer, random: @escaping @Sendable () -> Double) {
        self.dialer = dialer
        self.random = random
    }

    /// The environment that uses the network and the system's randomness.
    package static let system = HTTPClientEnvironment(dialer: TCPDialer()) { .random(in: 0...1) }
}
