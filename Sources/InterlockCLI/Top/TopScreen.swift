import InterlockCommandLine
import InterlockCore
import SidecarConsole
import SidecarListeners

/// The content of the screen of `interlock top`, and the handling of its keys. It does not access the terminal; callers
/// pass the terminal's size.
struct TopScreen: Sendable {
    struct Line: Equatable, Sendable {
        enum Style: Sendable {
            case plain, bold, reverse
        }

        var text: String
        var style = Style.plain
    }

    private(set) var query: TopQuery
    /// The answer to the current query; `nil` before it arrives.
    private(set) var frame: TopFrame?
    /// The latest state of the sidecar, which is shown above every view.
    private var sidecar: JSONValue?
    /// The reason why the last query failed; `nil` if it succeeded.
    var errorMessage: String?
    /// The index of the column to sort by; `nil` if rows keep the order of the frame.
    private var sortColumnIndex: Int?
    private var isReversed: Bool
    private var selectedRowIndex = 0
    /// The index of the first visible row of the table.
    private var firstVisibleRowIndex = 0
    private var isTypingSearch = false
    private var showsKeys = false
    /// The queries to return to, the latest last.
    private var history: [TopQuery] = []

    private static let views: [LiveView.Name] = [.overview, .locks, .services, .grants, .events, .domains]
    private static let keys: [(String, String)] = [
        ("q, Ctrl-C", "quit"), ("1 to 6, Tab", "overview, locks, services, grants, events, domains"),
        ("Up, Down, k, j, PgUp, PgDn, Home, End", "select a row"), ("Enter", "open the lock or service"),
        ("Esc, Backspace", "back"), ("/", "search the names; press Enter to finish"),
        ("s, S", "sort by the next or previous column"), ("r", "reverse the order"),
        ("n, p", "next page, first page"), ("?", "show these keys"),
    ]

    init(query: TopQuery, sort: Int? = nil, isReversed: Bool = false) {
        self.query = query
        sortColumnIndex = sort
        self.isReversed = isReversed
    }

    mutating func show(_ frame: TopFrame) {
        self.frame = frame
        sidecar = frame.object["sidecar"]
        errorMessage = nil
        selectedRowIndex = max(0, min(selectedRowIndex, table.rows.count - 1))
    }

    // MARK: Keys

    /// Applies a key press.
    /// - Parameter rows: the height of the terminal.
    /// - Returns: whether to quit.
    mutating func press(_ key: TopKey, rows: Int) -> Bool {
        if isTypingSearch { return type(key) }
        if showsKeys {
            showsKeys = false
            return key == .character("q")
        }
        let count = table.rows.count
        switch key {
        case .character("q"): return true
        case .character("?"): showsKeys = true
        case .character("/"): isTypingSearch = true
        case .character(let digit) where ("1"..."6").contains(digit):
            navigate(to: TopQuery(view: Self.views[Int(digit.wholeNumberValue ?? 1) - 1]), recordsHistory: false)
        case .tab:
            let index = Self.views.firstIndex(of: query.view).map { ($0 + 1) % Self.views.count } ?? 0
            navigate(to: TopQuery(view: Self.views[index]), recordsHistory: false)
        case .up, .character("k"): selectRow(selectedRowIndex - 1, of: count)
        case .down, .character("j"): selectRow(selectedRowIndex + 1, of: count)
        case .pageUp: selectRow(selectedRowIndex - max(1, rows - 8), of: count)
        case .pageDown: selectRow(selectedRowIndex + max(1, rows - 8), of: count)
        case .home: selectRow(0, of: count)
        case .end: selectRow(count - 1, of: count)
        case .enter: openSelectedRow()
        case .back, .erase: goBack()
        case .character("s"): changeSortColumn(1)
        case .character("S"): changeSortColumn(-1)
        case .character("r"): isReversed.toggle()
        case .character("n"): openNextPage()
        case .character("p"): openFirstPage()
        case .character: break
        }
        return false
    }

    /// Applies a key press to the search text. Never quits.
    private mutating func type(_ key: TopKey) -> Bool {
        var query = query
        switch key {
        case .enter: isTypingSearch = false
        case .back:
            isTypingSearch = false
            query.search = ""
        case .erase: query.search = String(query.search.dropLast())
        case .character(let character): query.search.append(character)
        default: break
        }
        query.cursor = "0"
        query.from = 0
        if TopQuery.isSearched(query.view) {
            if query != self.query { navigate(to: query, recordsHistory: false) }
        } else {
            self.query = query
            selectedRowIndex = 0
        }
        return false
    }

    private mutating func navigate(to next: TopQuery, recordsHistory: Bool) {
        guard next != query else { return }
        if recordsHistory { history.append(query) } else if next.view != query.view { history = [] }
        if next.view != query.view { (sortColumnIndex, isReversed) = (nil, false) }
        // A new search or page keeps the old frame until the sidecar answers.
        if next.view != query.view || next.name != query.name { frame = nil }
        query = next
        selectedRowIndex = 0
        firstVisibleRowIndex = 0
    }

    private mutating func selectRow(_ index: Int, of count: Int) { selectedRowIndex = max(0, min(index, count - 1)) }

    private mutating func changeSortColumn(_ step: Int) {
        let count = ViewModel.main(of: query.view).shown.count
        sortColumnIndex = ((sortColumnIndex ?? (step > 0 ? -1 : count)) + step + count) % count
    }

    private mutating func openSelectedRow() {
        let rows = table.rows
        guard rows.indices.contains(selectedRowIndex) else { return }
        for column in ViewModel.main(of: query.view).columns {
            guard column.kind == .lock || column.kind == .service,
                let name = Optional(rows[selectedRowIndex])[path: column.path].text
            else { continue }
            navigate(to: TopQuery(view: column.kind == .lock ? .lock : .service, name: name), recordsHistory: true)
        }
    }

    private mutating func goBack() {
        let previous = history.popLast()
        guard let previous else { return }
        // `navigate` forgets the history when the view changes.
        let history = history
        navigate(to: previous, recordsHistory: false)
        self.history = history
    }

    private mutating func openNextPage() {
        var nextQuery = query
        switch query.view {
        case .locks:
            guard let cursor = frame?.object["locks"]["cursor"].text, cursor != "0" else { return }
            nextQuery.cursor = cursor
        case .services:
            let page = frame?.object["services"]
            let end = query.from + page["services"].list.count
            guard end < page["total"].integer ?? 0 else { return }
            nextQuery.from = end
        case .overview, .lock, .service, .domains, .grants, .events: return
        }
        navigate(to: nextQuery, recordsHistory: false)
    }

    private mutating func openFirstPage() {
        var firstQuery = query
        (firstQuery.cursor, firstQuery.from) = ("0", 0)
        navigate(to: firstQuery, recordsHistory: false)
    }
}

// MARK: - Lines

extension TopScreen {
    private var nowMilliseconds: Int64 { frame?.nowMilliseconds ?? 0 }

    private func cells(_ model: ViewModel) -> TopCells {
        TopCells(nowMilliseconds: nowMilliseconds, readAtMilliseconds: frame?.object[model.part]["at_ms"].integer)
    }

    private func rows(_ model: ViewModel) -> [JSONValue]? { model.rows(in: frame?.object) }

    /// The table whose rows can be sorted and selected.
    private var table: (model: ViewModel, rows: [JSONValue]) {
        let model = ViewModel.main(of: query.view)
        let columns = model.shown
        let cells = cells(model)
        var rows = rows(model) ?? []
        if !query.search.isEmpty, !TopQuery.isSearched(query.view) {
            rows = rows.filter { row in columns.contains { cells.text(of: $0, in: row).contains(query.search) } }
        }
        if let sortColumnIndex, columns.indices.contains(sortColumnIndex) {
            let sortKeys = rows.map { cells.sortKey(of: columns[sortColumnIndex], in: $0) }
            rows = rows.indices.sorted { left, right in
                sortKeys[left] == sortKeys[right] ? left < right : (sortKeys[left] < sortKeys[right]) != isReversed
            }.map { rows[$0] }
        } else if isReversed {
            rows.reverse()
        }
        return (model, rows)
    }

    /// Returns all lines of a frame, for output without a screen.
    /// - Parameter columns: the width of the terminal; `nil` to leave lines at their full length.
    func page(columns: Int?) -> [String] {
        let (model, rows) = table
        var lines = headLines(columns)
        lines.append(Line(text: ""))
        lines += linesAboveTable(columns) + rendered(model, rows, selectedRow: nil) + linesBelowTable
        return lines.map { TopTerminal.truncated($0.text, columns: columns) }
    }

    /// Returns the lines of the screen, one for each row of the terminal.
    mutating func lines(columns: Int, rows: Int) -> [Line] {
        var lines = headLines(columns)
        lines.append(Line(text: viewTabs))
        if showsKeys {
            let width = Self.keys.map(\.0.count).max() ?? 0
            lines += [Line(text: "")] + Self.keys.map { Line(text: "  \($0.padding(to: width))  \($1)") }
        } else {
            lines += linesAboveTable(columns)
            let (model, tableRows) = table
            let tableLines = rendered(model, tableRows, selectedRow: selectedRowIndex)
            let below = linesBelowTable
            // The table gets the remaining rows, but at least four: its titles and three rows.
            let visibleRowCount = max(4, rows - 1 - lines.count - below.count) - 1
            let lastPageIndex = max(0, tableLines.count - 1 - visibleRowCount)
            firstVisibleRowIndex = max(0, min(firstVisibleRowIndex, selectedRowIndex, lastPageIndex))
            if selectedRowIndex >= firstVisibleRowIndex + visibleRowCount {
                firstVisibleRowIndex = selectedRowIndex - visibleRowCount + 1
            }
            lines += tableLines.prefix(1)
            lines += tableLines.dropFirst(1 + firstVisibleRowIndex).prefix(visibleRowCount)
            lines += below
        }
        lines = Array(lines.prefix(max(0, rows - 1)))
        while lines.count < rows - 1 { lines.append(Line(text: "")) }
        lines.append(Line(text: statusLine, style: .reverse))
        return lines.map { line in
            let text = TopTerminal.truncated(line.text, columns: columns)
            let fill = line.style == .reverse ? max(0, columns - TopTerminal.width(text)) : 0
            return Line(text: text + String(repeating: " ", count: fill), style: line.style)
        }
    }

    /// Returns the lines about the connected sidecar and its state.
    private func headLines(_ columns: Int?) -> [Line] {
        guard let sidecar else { return [Line(text: "interlock top: waiting for the first answer", style: .bold)] }
        let redis = sidecar["redis"]
        let isUp = redis["up"].flag
        let failure = redis["failure"].text.map { ": \($0)" } ?? ""
        let scope = redis["scope"].text.flatMap { RedisScope(rawValue: $0)?.notice }.map { "; \($0)" } ?? ""
        let identity =
            "Interlock \(sidecar["version"].text ?? ""), sidecar \(sidecar["id"].text ?? "") on \(sidecar["host"].text ?? "")"
        var lines =
            [
                Line(
                    text: "\(identity), \(ReadableText.moment(epochMilliseconds: nowMilliseconds))".printable,
                    style: .bold),
                Line(
                    text: "Redis \(isUp ? "up" : "DOWN") at \(redis["address"].text ?? "")\(failure)\(scope)".printable,
                    style: isUp ? .plain : .bold),
            ] + facts(.thisSidecar, sidecar, columns)
        let differing = sidecar["services_differing"].list.compactMap { Optional($0).text }.joined(separator: ", ")
        if !differing.isEmpty {
            lines.append(Line(text: "Sidecars have different configurations of: \(differing)".printable, style: .bold))
        }
        if let errorMessage { lines.append(Line(text: errorMessage.printable, style: .bold)) }
        return lines
    }

    /// The views with their keys; brackets mark the current one.
    private var viewTabs: String {
        Self.views.enumerated().map { index, view in
            view == query.view || "\(query.view.rawValue)s" == view.rawValue
                ? "[\(index + 1) \(view.rawValue)]" : " \(index + 1) \(view.rawValue) "
        }.joined(separator: " ")
    }

    private var statusLine: String {
        if isTypingSearch { return "search: \(query.search)_".printable }
        let search = query.search.isEmpty ? "" : "search: \(query.search)  ".printable
        return "\(search)q quit  ? keys  / search  s sort  enter open  esc back"
    }

    /// Returns the lines before the table.
    private func linesAboveTable(_ columns: Int?) -> [Line] {
        guard let frame else { return [Line(text: "")] }
        let model = ViewModel.main(of: query.view)
        let part = frame.object[model.part]
        let (table, name) = ("\(model.title)\(age(part))\(page(part))", query.name ?? "")
        func titled(_ title: String) -> Line { Line(text: title.printable, style: .bold) }
        let lines: [Line] =
            switch query.view {
            case .overview: secondary(.breakers) + limited + rates("rates")
            case .lock:
                [titled("Lock \(name)\(age(frame.object["lock"]))")] + facts(.lock, frame.object["lock"], columns)
                    + secondary(.holders) + secondary(.queue)
            case .service:
                [titled("Service \(name)")] + facts(.service, frame.object["service"], columns) + rates("minute")
            case .locks, .services, .domains, .grants, .events: []
            }
        return lines + (lines.isEmpty ? [] : [Line(text: "")]) + [titled(table)]
    }

    /// Returns the range of the services shown, or the key for the next page of locks.
    private func page(_ part: JSONValue?) -> String {
        if let from = part["from"].integer, let total = part["total"].integer {
            return " \(min(total, from &+ 1)) to \(from &+ Int64(part["services"].list.count)) of \(total)"
        }
        guard let cursor = part["cursor"].text, cursor != "0" else { return "" }
        return "; n: next page" + (part["complete"].flag ? "" : ", incomplete")
    }

    /// The lines after the table.
    private var linesBelowTable: [Line] { query.view == .service ? secondary(.history) : [] }

    /// Returns the age of a part's data, and the reason if the last refresh failed.
    private func age(_ part: JSONValue?) -> String {
        let failure = part["failure"].text
        if part["at_ms"] == .null { return ", not yet known" + (failure.map { ": \($0)" } ?? "") }
        let age = part["at_ms"].integer.map { readMilliseconds in
            ", as of \(ReadableText.span(milliseconds: max(0, nowMilliseconds &- readMilliseconds))) ago"
        }
        return (age ?? "") + (failure.map { "; refresh failed: \($0)" } ?? "")
    }

    /// The table of limited services; no lines if no service is limited, or if the sidecar is too old to list them.
    private var limited: [Line] { rows(.limited)?.isEmpty == false ? secondary(.limited) + [Line(text: "")] : [] }

    /// Returns a table without sorting and selection, below its title. Returns only the model's text if the table is
    /// empty.
    private func secondary(_ model: ViewModel) -> [Line] {
        guard let rows = rows(model) else { return [] }
        guard !rows.isEmpty else { return [Line(text: model.empty)] }
        return [Line(text: ""), Line(text: model.title, style: .bold)] + rendered(model, rows, selectedRow: -1, isSorted: false)
    }

    /// Returns the facts of a part, in as few lines as possible.
    private func facts(_ model: ViewModel, _ part: JSONValue?, _ columns: Int?) -> [Line] {
        guard let part, part["at_ms"] != .null else { return [] }
        if let key = model.key.first, part[key] == .null { return [Line(text: model.empty)] }
        let cells = TopCells(nowMilliseconds: nowMilliseconds, readAtMilliseconds: part["at_ms"].integer)
        return model.columns.reduce(into: []) { lines, column in
            let text = cells.text(of: column, in: part)
            guard !text.isEmpty else { return }
            let fact = "\(column.title): \(text)".printable
            if let last = lines.last, TopTerminal.width(last.text) + 2 + TopTerminal.width(fact) <= columns ?? .max {
                lines[lines.count - 1].text += "  \(fact)"
            } else {
                lines.append(Line(text: fact))
            }
        }
    }

    /// Returns the column titles, then one line per row.
    private func rendered(_ model: ViewModel, _ rows: [JSONValue], selectedRow: Int?, isSorted: Bool = true) -> [Line] {
        let (columns, formatted) = (model.shown, cells(model))
        let titles = columns.enumerated().map { index, column in
            column.title.uppercased() + (isSorted && index == sortColumnIndex ? (isReversed ? "^" : "v") : "")
        }
        let cells = rows.enumerated().map { index, row in
            columns.map { formatted.text(of: $0, in: row, at: index).printable }
        }
        let widths = columns.indices.map { index in
            min(
                Self.maximumColumnWidth,
                max(TopTerminal.width(titles[index]), cells.map { TopTerminal.width($0[index]) }.max() ?? 0))
        }
        func line(_ cells: [String]) -> String {
            zip(columns, zip(cells, widths)).enumerated().map { index, item in
                let (column, (cell, width)) = item
                let isLast = index == columns.count - 1
                let text = isLast ? cell : TopTerminal.truncated(cell, columns: width)
                return text.padding(to: isLast && !column.isNumber ? 0 : width, isRight: column.isNumber)
            }.joined(separator: "  ")
        }
        return [Line(text: line(titles), style: .bold)]
            + cells.enumerated().map { Line(text: line($1), style: $0 == selectedRow ? .reverse : .plain) }
    }

    /// The maximum width of every column but the last. Longer texts are truncated.
    private static let maximumColumnWidth = 40
    private static let bars = Array(" \u{2581}\u{2582}\u{2583}\u{2584}\u{2585}\u{2586}\u{2587}\u{2588}")
    private static let seconds = 60

    /// Returns the last minute of each series of a part, with its maximum.
    private func rates(_ part: String) -> [Line] {
        let lines = (ViewModel.diagrams[part] ?? []).flatMap { plot in plot.columns.map { ("\(plot.title) \($0.title)", $0.path) }
        }
        let width = lines.map(\.0.count).max() ?? 0
        return lines.map { title, path in
            let values = (frame?.object[part][path: path].list ?? []).suffix(Self.seconds).map { Optional($0).integer ?? 0 }
            let highest = values.max() ?? 0
            let bars = values.map { value in
                Self.bars[highest > 0 ? Int((Double(value) / Double(highest) * 8).rounded(.up)) : 0]
            }
            let line = String(repeating: " ", count: Self.seconds - values.count) + String(bars)
            return Line(text: "\(title.padding(to: width)) |\(line)| \(values.last ?? 0)/s, peak \(highest)/s")
        }
    }
}

extension String {
    fileprivate func padding(to width: Int, isRight: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - TopTerminal.width(self)))
        return isRight ? space + self : self + space
    }
}
