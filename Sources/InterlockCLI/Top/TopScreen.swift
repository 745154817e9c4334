import InterlockCommandLine
import InterlockCore
import SidecarListeners

/// What `interlock top` shows, and what its keys do. It does not know the terminal but for its size.
struct TopScreen: Sendable {
    struct Line: Equatable, Sendable {
        enum Style: Sendable {
            case plain, bold, reverse
        }

        var text: String
        var style = Style.plain
    }

    private(set) var query: TopQuery
    /// `nil`: what is looked at now was not answered yet.
    private(set) var frame: TopFrame?
    /// What the sidecar said last of itself.
    private var sidecar: JSONValue?
    /// Why the last look was in vain; `nil`: it was not.
    var trouble: String?
    /// The place of a column; `nil`: rows stand as they came.
    private var sort: Int?
    private var isReversed: Bool
    private var chosen = 0
    /// The first row of the table that is shown.
    private var top = 0
    private var isTyping = false
    private var showsKeys = false
    /// Where one came from.
    private var trail: [TopQuery] = []

    private static let views: [LiveView.Name] = [.overview, .locks, .services, .grants, .events, .domains]
    private static let keys: [(String, String)] = [
        ("q, Ctrl-C", "leave"), ("1 to 6, Tab", "overview, locks, services, grants, events, domains"),
        ("Up, Down, k, j, PgUp, PgDn, Home, End", "choose a row"), ("Enter", "open the lock or the service"),
        ("Esc, Backspace", "back"), ("/", "search for a part of the names; Enter ends it"),
        ("s, S", "sort by the next column, by the one before"), ("r", "sort the other way around"),
        ("n, p", "next page, first page"), ("?", "these keys"),
    ]

    init(query: TopQuery, sort: Int? = nil, isReversed: Bool = false) {
        self.query = query
        self.sort = sort
        self.isReversed = isReversed
    }

    mutating func show(_ frame: TopFrame) {
        self.frame = frame
        sidecar = frame.object["sidecar"]
        trouble = nil
        chosen = max(0, min(chosen, table.rows.count - 1))
    }

    // MARK: Keys

    /// - Parameter rows: of the terminal.
    /// - Returns: whether one leaves.
    mutating func press(_ key: TopKey, rows: Int) -> Bool {
        if isTyping { return type(key) }
        if showsKeys {
            showsKeys = false
            return key == .character("q")
        }
        let count = table.rows.count
        switch key {
        case .character("q"): return true
        case .character("?"): showsKeys = true
        case .character("/"): isTyping = true
        case .character(let digit) where ("1"..."6").contains(digit):
            look(at: TopQuery(view: Self.views[Int(digit.wholeNumberValue ?? 1) - 1]), leavingTrail: false)
        case .tab:
            let place = Self.views.firstIndex(of: query.view).map { ($0 + 1) % Self.views.count } ?? 0
            look(at: TopQuery(view: Self.views[place]), leavingTrail: false)
        case .up, .character("k"): choose(chosen - 1, of: count)
        case .down, .character("j"): choose(chosen + 1, of: count)
        case .pageUp: choose(chosen - max(1, rows - 8), of: count)
        case .pageDown: choose(chosen + max(1, rows - 8), of: count)
        case .home: choose(0, of: count)
        case .end: choose(count - 1, of: count)
        case .enter: open()
        case .back, .erase: back()
        case .character("s"): sortByNext(1)
        case .character("S"): sortByNext(-1)
        case .character("r"): isReversed.toggle()
        case .character("n"): nextPage()
        case .character("p"): firstPage()
        case .character: break
        }
        return false
    }

    private mutating func type(_ key: TopKey) -> Bool {
        var query = query
        switch key {
        case .enter: isTyping = false
        case .back:
            isTyping = false
            query.search = ""
        case .erase: query.search = String(query.search.dropLast())
        case .character(let character): query.search.append(character)
        default: break
        }
        query.cursor = "0"
        query.from = 0
        if TopQuery.isSearched(query.view) {
            if query != self.query { look(at: query, leavingTrail: false) }
        } else {
            self.query = query
            chosen = 0
        }
        return false
    }

    private mutating func look(at next: TopQuery, leavingTrail: Bool) {
        guard next != query else { return }
        if leavingTrail { trail.append(query) } else if next.view != query.view { trail = [] }
        if next.view != query.view { (sort, isReversed) = (nil, false) }
        // A search and a page keep what is there until the sidecar has answered.
        if next.view != query.view || next.name != query.name { frame = nil }
        query = next
        chosen = 0
        top = 0
    }

    private mutating func choose(_ place: Int, of count: Int) { chosen = max(0, min(place, count - 1)) }

    private mutating func sortByNext(_ step: Int) {
        let count = TopTables.columns(of: query.view).count
        sort = ((sort ?? (step > 0 ? -1 : count)) + step + count) % count
    }

    private mutating func open() {
        let rows = table.rows
        guard rows.indices.contains(chosen) else { return }
        switch query.view {
        case .locks, .grants:
            guard let name = rows[chosen]["name"].text else { return }
            look(at: TopQuery(view: .lock, name: name), leavingTrail: true)
        case .services:
            guard let name = rows[chosen]["service"].text else { return }
            look(at: TopQuery(view: .service, name: name), leavingTrail: true)
        case .overview, .lock, .service, .domains, .events: break
        }
    }

    private mutating func back() {
        let before = trail.popLast()
        guard let before else { return }
        let trail = trail
        look(at: before, leavingTrail: false)
        self.trail = trail
    }

    private mutating func nextPage() {
        var next = query
        switch query.view {
        case .locks:
            guard let cursor = frame?.object["locks"]["cursor"].text, cursor != "0" else { return }
            next.cursor = cursor
        case .services:
            let page = frame?.object["services"]
            let end = query.from + page["services"].list.count
            guard end < page["total"].integer ?? 0 else { return }
            next.from = end
        case .overview, .lock, .service, .domains, .grants, .events: return
        }
        look(at: next, leavingTrail: false)
    }

    private mutating func firstPage() {
        var next = query
        (next.cursor, next.from) = ("0", 0)
        look(at: next, leavingTrail: false)
    }
}

// MARK: - What is shown

extension TopScreen {
    private var now: Int64 { frame?.now ?? 0 }

    /// The table whose rows can be sorted and chosen.
    private var table: (columns: [TopColumn], rows: [JSONValue]) {
        let columns = TopTables.columns(of: query.view)
        var rows: [JSONValue] =
            switch query.view {
            case .overview: frame?.object["fleet"]["sidecars"].list ?? []
            case .locks: frame?.object["locks"]["locks"].list ?? []
            case .services: frame?.object["services"]["services"].list ?? []
            case .lock, .grants: frame?.object["grants"]["grants"].list ?? []
            case .service: limits
            case .events: frame?.object["events"]["events"].list ?? []
            case .domains:
                (frame?.object["domains"]["domains"].list ?? []).flatMap { domain in
                    domain["rules"].list.map { rule in
                        rule.adding("domain", domain["domain"])
                            .adding("shadow", .flag(rule["shadow"].flag || domain["shadow"].flag))
                    }
                }
            }
        let now = now
        if !query.search.isEmpty, !TopQuery.isSearched(query.view) {
            rows = rows.filter { row in columns.contains { $0.cell(row, now).contains(query.search) } }
        }
        if let sort, columns.indices.contains(sort) {
            let order = columns[sort].order
            rows = rows.enumerated().sorted { left, right in
                let (one, other) = (order(left.element, now), order(right.element, now))
                return one == other ? left.offset < right.offset : isReversed ? one > other : one < other
            }.map(\.element)
        } else if isReversed {
            rows.reverse()
        }
        return (columns, rows)
    }

    /// One frame without a screen: every line there is.
    /// - Parameter columns: how wide a line may be; `nil`: as wide as it is.
    func page(columns: Int?) -> [String] {
        (head + [Line(text: "")] + above + rendered(table.columns, table.rows, isChosen: nil) + below).map {
            TopTerminal.fitting($0.text, columns: columns)
        }
    }

    /// The whole screen, a line for each row.
    mutating func lines(columns: Int, rows: Int) -> [Line] {
        var lines = head
        lines.append(Line(text: views))
        if showsKeys {
            let width = Self.keys.map(\.0.count).max() ?? 0
            lines += [Line(text: "")] + Self.keys.map { Line(text: "  \($0.padding(to: width))  \($1)") }
        } else {
            lines += above
            let all = rendered(table.columns, table.rows, isChosen: chosen)
            let below = below
            // The table has what is left, at least its title and three rows.
            let room = max(4, rows - 1 - lines.count - below.count) - 1
            top = max(0, min(top, chosen, max(0, all.count - 1 - room)))
            if chosen >= top + room { top = chosen - room + 1 }
            lines += all.prefix(1) + all.dropFirst(1 + top).prefix(room) + below
        }
        lines = Array(lines.prefix(max(0, rows - 1)))
        while lines.count < rows - 1 { lines.append(Line(text: "")) }
        lines.append(Line(text: bottom, style: .reverse))
        return lines.map { line in
            let text = TopTerminal.fitting(line.text, columns: columns)
            let fill = line.style == .reverse ? max(0, columns - TopTerminal.width(text)) : 0
            return Line(text: text + String(repeating: " ", count: fill), style: line.style)
        }
    }

    /// Who is asked, and how it is.
    private var head: [Line] {
        guard let sidecar else { return [Line(text: "interlock top: nothing was answered yet", style: .bold)] }
        let redis = sidecar["redis"]
        let isUp = redis["up"].flag
        let failure = redis["failure"].text.map { ": \($0)" } ?? ""
        let scope = redis["scope"].text.flatMap { RedisScope(rawValue: $0)?.notice }.map { "; \($0)" } ?? ""
        func count(_ name: String) -> Int64 { sidecar[name].integer ?? 0 }
        let who =
            "Interlock \(sidecar["version"].text ?? ""), sidecar \(sidecar["id"].text ?? "") on \(sidecar["host"].text ?? "")"
        var lines = [
            Line(text: "\(who), \(TopTables.time(now))".printable, style: .bold),
            Line(
                text: "Redis \(isUp ? "up" : "AWAY") at \(redis["address"].text ?? "")\(failure)\(scope)".printable,
                style: isUp ? .plain : .bold),
            Line(
                text:
                    "\(count("fleet")) sidecars, \(count("services")) services, \(count("breakers_not_closed")) breakers not closed; here "
                    + "\(count("locks_held")) locks held, \(count("locks_waiting")) waiting, \(count("permits_under_way")) calls under way, "
                    + "\(count("calls_waiting")) waiting"),
        ]
        if let trouble { lines.append(Line(text: trouble.printable, style: .bold)) }
        return lines
    }

    private var views: String {
        Self.views.enumerated().map { place, view in
            view == query.view || "\(query.view.rawValue)s" == view.rawValue
                ? "[\(place + 1) \(view.rawValue)]" : " \(place + 1) \(view.rawValue) "
        }.joined(separator: " ")
    }

    private var bottom: String {
        if isTyping { return "search: \(query.search)_".printable }
        let search = query.search.isEmpty ? "" : "searched for \(query.search)  ".printable
        return "\(search)q leave  ? keys  / search  s sort  enter open  esc back"
    }

    /// What stands before the table.
    private var above: [Line] {
        guard let frame else { return [Line(text: "")] }
        let object = frame.object
        switch query.view {
        case .overview:
            let breakers = object["sidecar"]["breakers"].list
            return rates(object["rates"]["series"], TopScreen.totals)
                + (breakers.isEmpty ? [] : titled("Breakers that are not closed", TopTables.breakers, breakers))
                + [Line(text: "")] + [Line(text: "Fleet\(age(object["fleet"]))", style: .bold)]
        case .locks:
            let next = object["locks"]["cursor"].text ?? "0"
            let isWhole = object["locks"]["complete"].flag
            let more = next == "0" ? "" : "; n: the next page" + (isWhole ? "" : ", not all names were seen")
            return [Line(text: "Locks\(age(object["locks"]))\(more)", style: .bold)]
        case .services:
            let page = object["services"]
            let (from, shown, total) = (page["from"].integer ?? 0, page["services"].list.count, page["total"].integer ?? 0)
            return [Line(text: "Services \(min(total, from + 1)) to \(from + Int64(shown)) of \(total)", style: .bold)]
        case .grants: return [Line(text: "The last 100 grants of this sidecar", style: .bold)]
        case .domains: return [Line(text: "What the rules of the domains decided in this sidecar", style: .bold)]
        case .events: return [Line(text: "The last events that this sidecar heard", style: .bold)]
        case .lock:
            let lock = object["lock"]
            guard lock["at_ms"].integer != nil else {
                return [Line(text: "Lock \(query.name ?? "")\(age(lock))".printable, style: .bold), Line(text: ""), grantsTitle]
            }
            let leases = lock["leases"].list.map { $0.adding("at_ms", lock["at_ms"]) }
            return [Line(text: "Lock \(query.name ?? "")\(age(lock))".printable, style: .bold)]
                + (leases.isEmpty
                    ? [Line(text: "Nobody holds it.")]
                    : titled("Holders, \(TopTables.mode(lock ?? .null))", TopTables.leases, leases))
                + (lock["queue"].list.isEmpty
                    ? [Line(text: "Nobody waits for it.")]
                    : titled("Who waits where, by turn", TopTables.queue, lock["queue"].list))
                + [Line(text: ""), grantsTitle]
        case .service:
            return about(object["service"] ?? .null, object["minute"]["series"])
                + [Line(text: ""), Line(text: "Limits\(age(object["limits"]))", style: .bold)]
        }
    }

    /// Limits that were read, with the refusals of this sidecar; then limits per subject, whose counters are not read.
    private var limits: [JSONValue] {
        let known = frame?.object["service"]["limits"].list ?? []
        let read = (frame?.object["limits"]["limits"].list ?? []).map { row in
            row.adding("refused", known.first { $0["name"].text == row["name"].text }?["refused"] ?? .null)
        }
        return read + known.filter { $0["per_subject"].flag }
    }

    private var grantsTitle: Line { Line(text: "Its grants among the last 100 of this sidecar", style: .bold) }

    /// What stands behind it.
    private var below: [Line] {
        guard query.view == .service, let changes = frame?.object["service"]["history"].list, !changes.isEmpty else { return [] }
        return titled("What the breaker has been through", TopTables.changes, changes)
    }

    private func about(_ service: JSONValue, _ series: JSONValue?) -> [Line] {
        func count(_ name: String) -> Int64 { service[name].integer ?? 0 }
        let places = service["places"].integer.map { " of \($0) places" } ?? ""
        let why = TopTables.breakerWhy(service)
        let probe = TopTables.probe(service["probe"], now: now)
        var lines = [
            Line(text: "Service \(query.name ?? "")".printable, style: .bold),
            Line(text: "breaker \(service["state"].text ?? "gone")\(why.isEmpty ? "" : ": \(why)")".printable),
            Line(
                text: "\(ReadableText.percentage(service["failure_rate"].share)) failing and "
                    + "\(ReadableText.percentage(service["slow_rate"].share)) slow of \(count("calls")) calls; \(count("trips")) trips; "
                    + "\(count("under_way"))\(places) under way here, \(count("waiting")) waiting"),
        ]
        if !probe.isEmpty { lines.append(Line(text: "probe \(probe)".printable)) }
        return lines + rates(series, TopScreen.ofService)
    }

    private func age(_ part: JSONValue?) -> String {
        guard let part else { return "" }
        guard part["at_ms"].integer != nil else {
            return ", not known yet" + (part["failure"].text.map { ": \($0)".printable } ?? "")
        }
        let age = part["at_ms"].integer.map { ", as of \(ReadableText.span(milliseconds: max(0, now.less($0)))) ago" } ?? ""
        return age + (part["failure"].text.map { "; not read again: \($0)".printable } ?? "")
    }

    private func titled(_ title: String, _ columns: [TopColumn], _ rows: [JSONValue]) -> [Line] {
        [Line(text: ""), Line(text: title.printable, style: .bold)] + rendered(columns, rows, isChosen: -1, isSorted: false)
    }

    /// A title and a line for each row.
    private func rendered(_ columns: [TopColumn], _ rows: [JSONValue], isChosen: Int?, isSorted: Bool = true) -> [Line] {
        let now = now
        let titles = columns.enumerated().map { place, column in
            isSorted && place == sort ? column.title + (isReversed ? "^" : "v") : column.title
        }
        let cells = rows.map { row in columns.map { $0.cell(row, now).printable } }
        let widths = columns.indices.map { place in
            min(Self.widest, max(TopTerminal.width(titles[place]), cells.map { TopTerminal.width($0[place]) }.max() ?? 0))
        }
        func line(_ cells: [String]) -> String {
            zip(columns, zip(cells, widths)).enumerated().map { place, item in
                let (column, (cell, width)) = item
                let isLast = place == columns.count - 1
                let text = isLast ? cell : TopTerminal.fitting(cell, columns: width)
                return text.padding(to: isLast && !column.isNumber ? 0 : width, isRight: column.isNumber)
            }.joined(separator: "  ")
        }
        return [Line(text: line(titles), style: .bold)]
            + cells.enumerated().map { Line(text: line($1), style: $0 == isChosen ? .reverse : .plain) }
    }

    /// A column that is followed by others is cut there.
    private static let widest = 40

    private static let totals = [
        ("locks granted", "locks_granted"), ("held by another", "locks_held"), ("calls taken", "calls_taken"),
        ("calls limited", "calls_limited"), ("permits granted", "permits_granted"), ("permits refused", "permits_refused"),
        ("Redis commands", "redis_commands"),
    ]
    private static let ofService = [
        ("calls taken", "calls_taken"), ("calls limited", "calls_limited"), ("permits granted", "permits_granted"),
        ("permits refused", "permits_refused"), ("outcomes good", "outcomes_good"), ("outcomes failed", "outcomes_failed"),
    ]
    private static let bars = Array(" \u{2581}\u{2582}\u{2583}\u{2584}\u{2585}\u{2586}\u{2587}\u{2588}")
    private static let seconds = 60

    /// The last minute of each series, and how high it was.
    private func rates(_ series: JSONValue?, _ names: [(title: String, name: String)]) -> [Line] {
        let width = names.map(\.title.count).max() ?? 0
        return names.map { title, name in
            let values = series[name].list.suffix(Self.seconds).map { Optional($0).integer ?? 0 }
            let highest = values.max() ?? 0
            let bars = values.map { value in
                Self.bars[highest > 0 ? Int((Double(value) / Double(highest) * 8).rounded(.up)) : 0]
            }
            let line = String(repeating: " ", count: Self.seconds - values.count) + String(bars)
            return Line(text: "\(title.padding(to: width)) |\(line)| \(values.last ?? 0)/s, at most \(highest)/s")
        }
    }
}

extension String {
    fileprivate func padding(to width: Int, isRight: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - TopTerminal.width(self)))
        return isRight ? space + self : self + space
    }
}
