import NIOCore
import NIOPosix
import RedisClient
import Testing

@testable import Interlock

@Suite("A sidecar's wake-up channels on a cluster")
struct WakeChannelsTests {
    private final class Listener: RedisListener {
        var heard: Set<String> = []
        let isFollowing = false
        var onMessage: ((String, [UInt8]) -> Void)?
        var onInvalidated: (([String]?) -> Void)?
        var onSubscribed: (() -> Void)?
        var onReceivingInvalidations: ((Int64, RedisConfiguration.Address) -> Void)?
        var onDown: ((RedisError, RedisConfiguration.Address) -> Void)?

        func start() {}
        func close() -> EventLoopFuture<Void> { MultiThreadedEventLoopGroup.singleton.next().makeSucceededVoidFuture() }
        func subscribe(shardChannel channel: String, _ isHeard: Bool) {
            if isHeard { heard.insert(channel) } else { heard.remove(channel) }
        }
    }

    /// Returns the channels of a sidecar on a cluster, and their listener, which they do not retain.
    private static func channels() -> (WakeChannels, Listener) {
        let channels = WakeChannels(keys: KeySpace(isOnCluster: true), id: "0123456789ab")
        let listener = Listener()
        channels.listener = listener
        return (channels, listener)
    }

    @Test("A lock that is waited for repeatedly keeps its channel and displaces no other")
    func kept() {
        let (channels, listener) = Self.channels()
        channels.waits(for: "quiet")
        channels.waitIsOver(for: "quiet")
        for _ in 0..<1000 { channels.waitIsOver(for: "quiet") }
        for _ in 0..<1000 {
            channels.waits(for: "busy")
            channels.waitIsOver(for: "busy")
        }
        #expect(listener.heard == ["interlock:wake:0123456789ab:{quiet}", "interlock:wake:0123456789ab:{busy}"])
    }

    @Test("The channels unused for longest are dropped, and no channel in use is")
    func bounded() {
        let (channels, listener) = Self.channels()
        channels.waits(for: "waited-for")
        for number in 0..<1000 {
            channels.waits(for: "lock-\(number)")
            channels.waitIsOver(for: "lock-\(number)")
        }
        #expect(listener.heard.count == 257)
        #expect(listener.heard.contains("interlock:wake:0123456789ab:{waited-for}"))
        #expect(listener.heard.contains("interlock:wake:0123456789ab:{lock-999}"))
        #expect(!listener.heard.contains("interlock:wake:0123456789ab:{lock-0}"))
    }
}
