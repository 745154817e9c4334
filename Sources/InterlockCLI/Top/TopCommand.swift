import ArgumentParser
import Dispatch
import FoundationEssentials
import Glibc
import Interlock
import InterlockClient
import InterlockCommandLine
import SidecarConsole
import SidecarListeners
import Synchronization
import UnixSignals

/// `interlock top`: the console's views, in a terminal.
struct TopCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "Watch locks, services, the fleet and events in the terminal.",
        usage: "interlock top [<view>] [<name>] [<options>]",
        discussion: """
            Shows a view and keeps it up to date. Press q or Ctrl-C to leave, and ? to list the keys. The lock and service \
            views take a name. Data of other sidecars is read from Redis less often, so each view shows the age of its data.

            EXAMPLES
              interlock top
              interlock top locks --search orders --sort remaining
              interlock top lock orders/7
              interlock top services --once
              interlock top service search --once --json
            """
    )

    @Argument(help: "The view to show.")
    var view: LiveView.Name = .overview

    @Argument(help: "The name of the lock or service, for the views lock and service.")
    var name: String?

    @Option(help: ArgumentHelp("Show only names that contain this text.", valueName: "text"))
    var search: String?

    @Option(help: ArgumentHelp("Sort by this column, for example remaining.", valueName: "column"))
    var sort: String?

    @Flag(help: "Reverse the order.")
    var reverse = false

    @Option(
        help: .duration("How often to refresh, from 100ms to 1h.", default: TopCommand.defaultInterval),
        transform: DurationArgument.init(argument:))
    var every = TopCommand.defaultInterval

    @Flag(help: "Print one frame and exit.")
    var once = false

    @OptionGroup var sidecar: SidecarOptions
    @OptionGroup var output: OutputOptions

    private static let defaultInterval = DurationArgument(.seconds(1))

    func validate() throws {
        guard (100...3_600_000).contains(every.milliseconds) else {
            throw ValidationError("--every: expected 100ms to 1h, got \(every)")
        }
        do {
            _ = try LiveView(view.rawValue, name: name, search: TopQuery.isSearched(view) ? search : nil)
        } catch {
            throw ValidationError(error.message)
        }
        let model = ViewModel.main(of: view)
        if let sort, model.column(sort) == nil {
            let titles = model.shown.map { $0.title.lowercased() }.joined(separator: ", ")
            throw ValidationError(
                "--sort: the view \(view.rawValue) has no column \"\(sort)\"; expected one of \(titles)")
        }
    }

    func run() async throws {
        let isInteractive = !once && !output.json
        guard !isInteractive || (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) else {
            throw CommandFailure("`interlock top` needs a terminal; use --once to print one frame, or --json", .usage)
        }
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup, .sigquit, .sigwinch)
        let screen = TopScreen(
            query: TopQuery(view: view, name: name, search: search ?? ""),
            sort: sort.flatMap(ViewModel.main(of: view).column), isReversed: reverse)
        let (once, isJSON, pause) = (once, output.json, every.duration)
        try await sidecar.withClient("top") { client in
            if isInteractive {
                // The first frame is read before the screen changes, so an error is printed as ordinary text.
                let firstFrame = try await client.view(screen.query.words)
                try await TopSession(client: client, screen: screen, pause: pause)
                    .run(beginningWith: firstFrame, until: signals)
            } else {
                try await Self.print(screen, of: client, pause: pause, isJSON: isJSON, once: once, until: signals)
            }
        }
    }

    /// Prints frames as lines, for scripts.
    private static func print(
        _ screen: TopScreen, of client: SidecarClient, pause: Duration, isJSON: Bool, once: Bool,
        until signals: UnixSignalsSequence
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for await signal in signals where signal != .sigwinch { return }
            }
            group.addTask {
                var screen = screen
                repeat {
                    let json = try await client.view(screen.query.words)
                    if isJSON {
                        guard await Terminal.showNext(JSONOutput.line(json)) else { return }
                    } else {
                        screen.show(try TopFrame(json))
                        let page = screen.page(columns: TopTerminal.columns).joined(separator: "\n")
                        guard await Terminal.showNext(page) else { return }
                    }
                    // The pause between two frames is the interval of `--every`.
                    if !once { try await Task.sleep(for: pause) }
                } while !once && !Task.isCancelled
            }
            try await group.next()
            group.cancelAll()
        }
    }
}

extension LiveView.Name: ExpressibleByArgument {}

/// The arguments of `LIVE.VIEW`: the view, its name or search text, and the page.
struct TopQuery: Equatable, Sendable {
    var view: LiveView.Name
    var name: String?
    var search = ""
    var cursor = "0"
    var from = 0

    /// Returns whether the sidecar searches this view. `interlock top` filters the rows of other views itself.
    static func isSearched(_ view: LiveView.Name) -> Bool { view == .locks || view == .services }

    /// The arguments, encoded as words of the command.
    var words: [String] {
        var words = [view.rawValue]
        if let name { words += ["NAME", name] }
        if Self.isSearched(view), !search.isEmpty { words += ["SEARCH", search] }
        if view == .locks, cursor != "0" { words += ["CURSOR", cursor] }
        if view == .services, from > 0 { words += ["FROM", "\(from)"] }
        return words
    }
}

/// A flag that is set while a periodic event waits in the queue, so that the event is not queued twice.
private final class PendingFlag: Sendable {
    private let isPending = Atomic(false)

    /// Marks the event as pending. Returns `true` if it was not pending before.
    func begin() -> Bool { !isPending.exchange(true, ordering: .relaxed) }

    func end() { isPending.store(false, ordering: .relaxed) }
}

/// A terminal that shows a view until its user quits.
private struct TopSession {
    private enum Event: Sendable {
        case keysTyped([UInt8])
        /// The sidecar answered a query with a frame as JSON, or the query failed.
        case viewReceived(TopQuery, Result<String, InterlockError>)
        /// The next frame is due.
        case refreshDue
        /// The ages and remaining times on the screen are out of date.
        case clockTick
        case resized
        /// A signal asked the program to end, or the terminal was closed.
        case quitRequested
    }

    /// The interval at which the screen is redrawn between frames.
    private static let redrawInterval = Duration.milliseconds(500)

    let client: SidecarClient
    var screen: TopScreen
    let pause: Duration

    func run(beginningWith firstFrame: String, until signals: UnixSignalsSequence) async throws {
        let terminal = try TopTerminal.open()
        defer { terminal.restore() }
        let (stream, continuation) = AsyncStream.makeStream(of: Event.self, bufferingPolicy: .unbounded)
        // Periodic events are pending at most once, so that they do not pile up while the loop is busy.
        let (refreshFlag, tickFlag) = (PendingFlag(), PendingFlag())
        let keys = DispatchSource.makeReadSource(fileDescriptor: STDIN_FILENO)
        keys.setEventHandler {
            let bytes = TopTerminal.read()
            // An empty read means that the terminal was closed.
            continuation.yield(bytes.isEmpty ? .quitRequested : .keysTyped(bytes))
        }
        keys.resume()
        defer { keys.cancel() }
        var screen = screen
        screen.show(try TopFrame(firstFrame))
        terminal.draw(&screen)
        try await withThrowingDiscardingTaskGroup { group in
            group.addTask {
                for await signal in signals { continuation.yield(signal == .sigwinch ? .resized : .quitRequested) }
            }
            group.addTask { [pause] in
                // The interval of `--every`. Cancelling the group ends the loop.
                while true {
                    try await Task.sleep(for: pause)
                    if refreshFlag.begin() { continuation.yield(.refreshDue) }
                }
            }
            group.addTask {
                // Ages and remaining times change between frames, so the screen is redrawn more often.
                while true {
                    try await Task.sleep(for: Self.redrawInterval)
                    if tickFlag.begin() { continuation.yield(.clockTick) }
                }
            }
            var (pendingQuery, answeredQuery): (TopQuery?, TopQuery?) = (nil, screen.query)
            func requestView() {
                let query = screen.query
                guard pendingQuery != query else { return }
                pendingQuery = query
                group.addTask { [client] in
                    do {
                        let json = try await client.view(query.words)
                        continuation.yield(.viewReceived(query, .success(json)))
                    } catch let error as InterlockError {
                        continuation.yield(.viewReceived(query, .failure(error)))
                    }
                }
            }
            events: for await event in stream {
                switch event {
                case .quitRequested: break events
                case .refreshDue:
                    refreshFlag.end()
                    requestView()
                case .clockTick: tickFlag.end()
                case .resized: break
                case .viewReceived(let query, let result):
                    if pendingQuery == query { pendingQuery = nil }
                    guard query == screen.query else { continue }
                    answeredQuery = query
                    switch result {
                    case .success(let json):
                        if let frame = try? TopFrame(json) {
                            screen.show(frame)
                        } else {
                            screen.errorMessage =
                                "Cannot read the sidecar's answer: compare its version with `interlock --version`."
                        }
                    case .failure(let error):
                        screen.errorMessage =
                            error.isFromSidecar ? error.message : "The sidecar does not answer: \(error.message)"
                    }
                case .keysTyped(let bytes):
                    for key in TopKey.keys(bytes) where screen.press(key, rows: TopTerminal.size.rows) { break events }
                    if screen.query != answeredQuery || screen.frame == nil { requestView() }
                }
                terminal.draw(&screen)
            }
            group.cancelAll()
        }
    }
}
