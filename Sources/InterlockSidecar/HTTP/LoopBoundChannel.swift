internal import HummingbirdCore
internal import Interlock
internal import Logging
internal import NIOCore

/// A connection whose requests are answered on the event loop that its bytes arrive on: within a request no thread changes but
/// for the hop to the coordinator.
struct LoopBoundChannel<Base: ServerChildChannel>: ServerChildChannel {
    let base: Base

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Base.Value> {
        base.setup(channel: channel, logger: logger)
    }

    func handle(value: Base.Value, logger: Logger) async {
        await withTaskExecutorPreference(EventLoopTaskExecutor(eventLoop: value.channel.eventLoop)) {
            await base.handle(value: value, logger: logger)
        }
    }
}
