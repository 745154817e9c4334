package import NIOCore
package import SidecarTelemetry

/// Renders the pages of `/metrics`, one at a time and off the event loop.
///
/// Rendering a page of ten thousand samples takes milliseconds, on a thread that may share a core with the event loop.
/// Pauses therefore limit rendering to about a tenth of the time. Up to eight waiting readers share a page, and API
/// keys take turns. Confined to the event loop.
package final class MetricsPages {
    package typealias Render = @Sendable (ExpositionFormat) async -> String

    /// The pause after a page, as a multiple of the time that the page took.
    private static let pauseFactor = 9
    /// The maximum pause. On a busy machine a page takes long, and the next one must not wait several times as long.
    private static let maximumPause = TimeAmount.milliseconds(100)
    /// The maximum number of readers of one page. A page may be a megabyte long, and is written to all of them in one
    /// tick.
    private static let readersPerPage = 8

    private struct Reader {
        var format: ExpositionFormat
        var hasDisconnected: () -> Bool
        var read: (ByteBuffer) -> Void
    }

    private let eventLoop: any EventLoop
    private let render: Render
    private var waiting = RoundRobinQueue<String, Reader>()
    /// Whether a page is being rendered, or the pause after one lasts.
    private var isBusy = false

    package init(eventLoop: any EventLoop, render: @escaping Render) {
        self.eventLoop = eventLoop
        self.render = render
    }

    /// Calls `read` with a page whose rendering begins after this call, unless the reader has disconnected by then.
    /// - Parameter clientName: the name of the reader's API key; empty without a key.
    package func request(
        _ format: ExpositionFormat, of clientName: String, hasDisconnected: @escaping () -> Bool,
        _ read: @escaping (ByteBuffer) -> Void
    ) {
        waiting.append(Reader(format: format, hasDisconnected: hasDisconnected, read: read), of: clientName)
        if !isBusy { renderNext() }
    }

    private func renderNext() {
        var readers: [Reader] = []
        while readers.count < Self.readersPerPage, let next = waiting.popFirst() {
            if !next.hasDisconnected() { readers.append(next) }
        }
        isBusy = !readers.isEmpty
        guard isBusy else { return }
        let formats = Set(readers.map(\.format))
        let startedAt = eventLoop.now
        let batch = NIOLoopBound((pages: self, readers: readers), eventLoop: eventLoop)
        Task { [render, eventLoop] in
            var pages: [ExpositionFormat: ByteBuffer] = [:]
            for format in formats { pages[format] = ByteBuffer(string: await render(format)) }
            let rendered = pages
            eventLoop.execute { batch.value.pages.deliver(rendered, to: batch.value.readers, since: startedAt) }
        }
    }

    private func deliver(_ pages: [ExpositionFormat: ByteBuffer], to readers: [Reader], since startedAt: NIODeadline) {
        let elapsed = eventLoop.now - startedAt
        for reader in readers { pages[reader.format].map(reader.read) }
        eventLoop.assumeIsolated().scheduleTask(in: min(elapsed * Self.pauseFactor, Self.maximumPause)) { self.renderNext() }
    }
}
