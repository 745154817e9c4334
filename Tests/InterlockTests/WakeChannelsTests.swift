import NIOCore
import NIOPosix
import RedisClient
import Testing

@testable import Interlock

@Suite("A sidecar's wake-up channels on a cluster")
struct WakeChannelsTests {
    private final class Receiver: RedisReceiver {
        var subscribed: Set<String> = []
        let isSubscribed = false
        var onMessage: ((String, [UInt8]) -> Void)?
        var onInvalidated: (([String]?) -> Void)?
        var onSubscribed: (() -> Void)?
        var onReceivingInvalidations: ((Int64, RedisConfiguration.Address) -> Void)?
        var onDown: ((RedisError, RedisConfiguration.Address) -> Void)?

        func start() {}
        func close() -> EventLoopFuture<Void> { MultiThreadedEventLoopGroup.singleton.next().makeSucceededVoidFuture() }
        func subscribe(shardChannel channel: String, _ isSubscribed: Bool) {
            if isSubscribed { subscribed.insert(channel) } else { subscribed.remove(channel) }
        }
    }

    /// Returns the channels of a sidecar on a cluster, and their receiver, which they do not retain.
    private static func channels() -> (WakeChannels, Receiver) {
        let channels = WakeChannels(keys: KeySpace(isOnCluster: true), id: "0123456789ab")
        let receiver = Receiver()
        channels.receiver = receiver
        return (channels, receiver)
    }

    @Test("A lock with repeated waits keeps its channel and displaces no other")
    func kept() {
        let (channels, receiver) = Self.channels()
        channels.subscribe(for: "quiet")
        channels.unsubscribeLater(for: "quiet")
        for _ in 0..<1000 { channels.unsubscribeLater(for: "quiet") }
        for _ in 0..<1000 {
            channels.subscribe(for: "busy")
            channels.unsubscribeLater(for: "busy")
        }
        #expect(receiver.subscribed == ["interlock:wake:0123456789ab:{quiet}", "interlock:wake:0123456789ab:{busy}"])
    }

    @Test("The least recently used channels are dropped, but none in use")
    func leastRecentlyUsedChannelsAreDropped() {
        let (channels, receiver) = Self.channels()
        channels.subscribe(for: "waited-for")
        for number in 0..<1000 {
            channels.subscribe(for: "lock-\(number)")
            channels.unsubscribeLater(for: "lock-\(number)")
        }
        #expect(receiver.subscribed.count == 257)
        #expect(receiver.subscribed.contains("interlock:wake:0123456789ab:{waited-for}"))
        #expect(receiver.subscribed.contains("interlock:wake:0123456789ab:{lock-999}"))
        #expect(!receiver.subscribed.contains("interlock:wake:0123456789ab:{lock-0}"))
    }
}
