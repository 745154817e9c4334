import NIOCore

/// One attempt of a process to connect to a server.
struct ConnectionAttempt {
    struct Refused: Error, CustomStringConvertible {
        var description: String
    }

    let timeline: WorldTimeline
    let path: Path
    /// The event loop of the process.
    let eventLoop: any EventLoop

    /// Connects with one delay each way, unless the path holds back or refuses the attempt.
    ///
    /// - Parameters:
    ///   - accept: receives the server's end; returns `false` if the server is not listening.
    ///   - initialize: adds the first handlers, before the channel receives anything.
    func dial(
        timeout: TimeAmount, accept: @escaping (Wire) -> Bool,
        initialize: @escaping @Sendable (any Channel) -> EventLoopFuture<Void> = { $0.eventLoop.makeSucceededVoidFuture() }
    ) -> EventLoopFuture<any Channel> {
        let promise = eventLoop.makePromise(of: (any Channel).self)
        var isComplete = false
        func complete(_ result: Result<any Channel, any Error>) {
            guard !isComplete else { return }
            isComplete = true
            promise.completeWith(result)
        }
        nonisolated(unsafe) let giveUp = { complete(.failure(ChannelError.connectTimeout(timeout))) }
        eventLoop.scheduleTask(in: timeout) { giveUp() }
        reach(accept) { wire in
            guard let wire else { return complete(.failure(Refused(description: "connection refused"))) }
            guard !isComplete else { return wire.close(to: wire.far) }
            SimulatedChannel.open(over: wire, on: eventLoop, initialize: initialize, completion: complete)
        }
        return promise.futureResult
    }

    /// Calls `completion` in the process with a wire whose far end the server has accepted, or with `nil` if the path
    /// or the server refuses the attempt.
    private func reach(_ accept: @escaping (Wire) -> Bool, completion: @escaping (Wire?) -> Void) {
        timeline.schedule(in: path.drawDelay()) { [timeline, path, eventLoop] in
            path.deliver {
                let wire = Wire(timeline: timeline, path: path)
                let isOpen = !path.isRefusing && accept(wire)
                timeline.schedule(in: path.drawDelay()) {
                    path.deliver {
                        nonisolated(unsafe) let complete = { completion(isOpen ? wire : nil) }
                        eventLoop.execute { complete() }
                    }
                }
            }
        }
    }
}

extension SimulatedChannel {
    /// Opens a process's channel at the near end of a wire, once `initialize` has added the first handlers.
    static func open(
        over wire: Wire, on eventLoop: any EventLoop, initialize: (any Channel) -> EventLoopFuture<Void>,
        completion: @escaping (Result<any Channel, any Error>) -> Void
    ) {
        let channel = SimulatedChannel(over: wire, on: eventLoop)
        initialize(channel).assumeIsolated().whenComplete { result in
            switch result {
            case .success:
                channel.activate()
                completion(.success(channel))
            case .failure(let error):
                wire.close(to: wire.far)
                completion(.failure(error))
            }
        }
    }
}
