/// The directory of a fixed address. Keeps its connections at the same server. Confined to its event loop.
final class ServerDirectory: RedisDirectory {
    private let address: RedisConfiguration.Address
    private let group: ServerGroup

    init(address: RedisConfiguration.Address, environment: RedisEnvironment) {
        self.address = address
        group = ServerGroup(environment: environment)
    }

    var isEmpty: Bool { group.isEmpty }
    var checksRole: Bool { false }

    func serverAddress() throws(RedisError) -> RedisConfiguration.Address? { address }
    func add(_ follower: any RedisDirectoryFollower) { group.add(follower) }
    func remove(_ follower: any RedisDirectoryFollower) { group.remove(follower) }
    func connectionEstablished(_ follower: any RedisDirectoryFollower, _ dialedServer: DialedServer) {
        group.connectionEstablished(follower, dialedServer)
    }

    func connectionLost(_ follower: any RedisDirectoryFollower, because error: RedisError, at dialedServer: DialedServer) {
        group.connectionLost(follower, because: error, at: dialedServer)
    }
}
