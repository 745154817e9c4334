package import NIOCore
package import SidecarTelemetry

/// Renders the pages of `/metrics`, one at a time and off the event loop.
///
/// A page of ten thousand samples takes milliseconds, on a thread that may share a core with the event loop. So pages
/// take a tenth of the time at most, and all readers that ask before the next one begins share it. API keys take turns.
/// Confined to the loop.
package final class MetricsPages {
    package typealias Render = @Sendable (ExpositionFormat) async -> String

    /// The pause after a page, as a multiple of the time that the page took.
    private static let rest = 9
    /// The longest pause: on a busy machine a page takes long, and the next one must not wait for that.
    private static let longestRest = TimeAmount.milliseconds(100)
    /// The most readers of one page, which may have a megabyte and is written to all of them in one tick.
    private static let readersPerPage = 8

    private struct Reader {
        var format: ExpositionFormat
        var isGone: () -> Bool
        var read: (ByteBuffer) -> Void
    }

    private let eventLoop: any EventLoop
    private let render: Render
    private var waiting = RoundRobinQueue<String, Reader>()
    private var isBusy = false

    package init(eventLoop: any EventLoop, render: @escaping Render) {
        self.eventLoop = eventLoop
        self.render = render
    }

    /// Calls `read` with a page whose rendering begins after this call.
    /// - Parameters:
    ///   - clientKey: the name of the reader's API key; empty without a key.
    ///   - isGone: returns whether the reader has left.
    package func request(
        _ format: ExpositionFormat, of clientKey: String, isGone: @escaping () -> Bool, _ read: @escaping (ByteBuffer) -> Void
    ) {
        waiting.append(Reader(format: format, isGone: isGone, read: read), of: clientKey)
        if !isBusy { makeNext() }
    }

    private func makeNext() {
        var readers: [Reader] = []
        while readers.count < Self.readersPerPage, let next = waiting.popFirst() { if !next.isGone() { readers.append(next) } }
        isBusy = !readers.isEmpty
        guard isBusy else { return }
        let formats = Set(readers.map(\.format))
        let began = eventLoop.now
        let mine = NIOLoopBound((pages: self, readers: readers), eventLoop: eventLoop)
        Task { [render, eventLoop] in
            var pages: [ExpositionFormat: ByteBuffer] = [:]
            for format in formats { pages[format] = ByteBuffer(string: await render(format)) }
            let made = pages
            eventLoop.execute { mine.value.pages.deliver(made, to: mine.value.readers, since: began) }
        }
    }

    private func deliver(_ pages: [ExpositionFormat: ByteBuffer], to readers: [Reader], since began: NIODeadline) {
        let taken = eventLoop.now - began
        for reader in readers { pages[reader.format].map(reader.read) }
        eventLoop.assumeIsolated().scheduleTask(in: min(taken * Self.rest, Self.longestRest)) { self.makeNext() }
    }
}
