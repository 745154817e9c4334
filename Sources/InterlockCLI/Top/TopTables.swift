import Interlock
import InterlockCommandLine
import InterlockCore
import SidecarListeners

extension Optional<JSONValue> {
    subscript(name: String) -> JSONValue? { self?[name] }
    var text: String? { if case .text(let text) = self { text } else { nil } }
    var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
    var flag: Bool { self == .flag(true) }
    var list: [JSONValue] { if case .list(let list) = self { list } else { [] } }

    var share: Double {
        switch self {
        case .number(let value): value
        case .integer(let value): Double(value)
        default: 0
        }
    }
}

extension Int64 {
    /// The difference, or the nearest number to it: what comes from elsewhere may be any number.
    func less(_ other: Int64) -> Int64 {
        let (difference, overflow) = subtractingReportingOverflow(other)
        return overflow ? (other < 0 ? .max : .min) : difference
    }
}

/// A column of a table: its title, what stands in a row, and what rows are sorted by.
struct TopColumn: Sendable {
    enum Order: Comparable {
        case number(Double)
        case text(String)
    }

    var title: String
    var isNumber = false
    var cell: @Sendable (_ row: JSONValue, _ now: Int64) -> String
    var order: @Sendable (_ row: JSONValue, _ now: Int64) -> Order

    /// A column of text.
    static func text(_ title: String, _ cell: @escaping @Sendable (JSONValue, Int64) -> String) -> TopColumn {
        TopColumn(title: title, cell: cell, order: { .text(cell($0, $1).lowercased()) })
    }

    /// A column of whole numbers; none: empty.
    static func number(_ title: String, _ value: @escaping @Sendable (JSONValue) -> Int64?) -> TopColumn {
        TopColumn(
            title: title, isNumber: true, cell: { row, _ in value(row).map { "\($0)" } ?? "" },
            order: { row, _ in .number(value(row).map { Double($0) } ?? -1) })
    }

    /// A column of times in milliseconds, made of the row and the time.
    static func time(_ title: String, _ value: @escaping @Sendable (JSONValue, Int64) -> Int64?) -> TopColumn {
        TopColumn(
            title: title, isNumber: true,
            cell: { row, now in value(row, now).map { ReadableText.span(milliseconds: max(0, $0)) } ?? "" },
            order: { .number(value($0, $1).map { Double($0) } ?? -1) })
    }

    static func share(_ title: String, _ name: String) -> TopColumn {
        TopColumn(
            title: title, isNumber: true, cell: { row, _ in ReadableText.percentage(row[name].share) },
            order: { row, _ in .number(row[name].share) })
    }
}

/// The columns of the views, and the words in them.
enum TopTables {
    static let locks: [TopColumn] = [
        .text("LOCK") { row, _ in row["name"].text ?? "" },
        .text("HOLDER") { row, _ in
            let holders = row["holders"].integer ?? 0
            // Of those that hold it together the label is their group's.
            let own = row["mode"].text == "exclusive" ? nil : row["leases"].list.first.flatMap { $0["label"].text }
            let label = own ?? row["label"].text ?? ""
            return holders == 0
                ? (row["waiters"].integer ?? 0) > 0 ? "passed on" : "nobody"
                : holders > 1 ? "\(label) and \(holders - 1) more" : label
        },
        .number("FENCE") { $0["fence"].integer },
        remaining,
        .text("MODE") { row, _ in mode(row) },
        .number("WAITING") { $0["waiters"].integer },
        .time("AGE") { row, now in row["at_ms"].integer.map { now.less($0) } },
    ]

    static let services: [TopColumn] = [
        .text("SERVICE") { row, _ in row["service"].text ?? "" },
        .text("BREAKER") { row, _ in row["state"].text ?? "" },
        .share("FAILED", "failure_rate"),
        .share("SLOW", "slow_rate"),
        .number("UNDERWAY") { $0["under_way"].integer },
        .number("WAITING") { $0["waiting"].integer },
        .number("TAKEN/MIN") { $0["minute"]["calls_taken"].integer },
        .number("LIMITED/MIN") { $0["minute"]["calls_limited"].integer },
        .text("WHY") { row, _ in breakerWhy(row) },
        .text("PROBE") { row, now in probe(row["probe"], now: now) },
    ]

    static let grants: [TopColumn] = [
        .text("GRANTED") { row, _ in time(row["granted_ms"].integer) },
        .text("LOCK") { row, _ in row["name"].text ?? "" },
        .text("HOLDER") { row, _ in row["label"].text ?? "" },
        .number("FENCE") { $0["fence"].integer },
        .text("MODE") { row, _ in row["permits"].integer.map { "one of \($0) places" } ?? row["mode"].text ?? "" },
        .time("WAITED") { row, _ in row["waited_ms"].integer },
        .time("HELD") { row, now in row["granted_ms"].integer.map { (row["ended_ms"].integer ?? now).less($0) } },
        .text("END") { row, _ in row["end"].text ?? "in force" },
    ]

    static let events: [TopColumn] = [
        .text("TYPE") { row, _ in row["type"].text ?? "" },
        .text("EVENT") { row, _ in
            guard let json = try? row.json(), let line = ReceivedEvent(Array(json))?.event?.line else {
                return time(row["at_ms"].integer)
            }
            return line
        },
    ]

    static let fleet: [TopColumn] = [
        .text("SIDECAR") { row, _ in row["id"].text ?? "" },
        .text("HOST") { row, _ in row["host"].text ?? "" },
        .number("PID") { $0["pid"].integer },
        .text("VERSION") { row, _ in row["version"].text ?? "" },
        .time("UP") { row, now in row["started_ms"].integer.map { now.less($0) } },
        .text("DIFFERS") { row, _ in row["differs"].list.compactMap { Optional($0).text }.joined(separator: ", ") },
    ]

    static let leases: [TopColumn] = [
        .text("HOLDER") { row, _ in row["label"].text ?? "" },
        .number("FENCE") { $0["fence"].integer },
        remaining,
    ]

    static let queue: [TopColumn] = [
        .text("SIDECAR") { row, _ in row["sidecar"].text ?? "" },
        .text("WAITING") { row, _ in row["waiters"].integer.map { "\($0)" } ?? "not told" },
    ]

    static let limits: [TopColumn] = [
        .text("LIMIT") { row, _ in row["name"].text ?? "" },
        .number("USED") { row in
            row["remaining"].integer.flatMap { left in row["limit"].integer.map { max(0, $0.less(left)) } }
        },
        .number("OF") { $0["limit"].integer },
        .time("WINDOW") { row, _ in row["window_ms"].integer },
        .number("REFUSED") { $0["refused"].integer },
        .time("ROOM IN") { row, _ in row["limited"].flag ? row["retry_after_ms"].integer : nil },
        kind,
    ]

    static let domains: [TopColumn] = [
        .text("DOMAIN") { row, _ in row["domain"].text ?? "" },
        .text("RULE") { row, _ in row["rule"].text ?? "" },
        .text("LIMIT") { row, _ in row["limit"].integer.map { "\($0)" } ?? "none" },
        .time("WINDOW") { row, _ in row["window_ms"].integer },
        .number("PASSED") { $0["ok"].integer },
        .number("REFUSED") { $0["over_limit"].integer },
        .number("SHADOW") { $0["shadow_refusals"].integer },
        kind,
    ]

    static let breakers: [TopColumn] = [services[0], services[1], services[8]]

    static let changes: [TopColumn] = [
        .text("WHEN") { row, _ in time(row["at_ms"].integer) },
        .text("BREAKER") { row, _ in row["state"].text ?? "" },
        .text("WHY") { row, _ in breakerWhy(row) },
        .share("FAILED", "failure_rate"), .share("SLOW", "slow_rate"),
    ]

    private static let kind = TopColumn.text("KIND") { row, _ in
        [row["algorithm"].text, row["per_subject"].flag ? "each subject" : nil, row["shadow"].flag ? "shadow" : nil]
            .compactMap(\.self).joined(separator: ", ")
    }

    private static let remaining = TopColumn(
        title: "REMAINING", isNumber: true,
        cell: { row, now in
            guard let ttl = row["ttl_ms"].integer, ttl != 0 else { return "" }
            return ttl < 0
                ? "without end" : ReadableText.span(milliseconds: max(0, ttl.less(now.less(row["at_ms"].integer ?? now))))
        },
        order: { row, _ in
            let ttl = row["ttl_ms"].integer ?? 0
            return .number(ttl < 0 ? .infinity : Double(ttl) + Double(row["at_ms"].integer ?? 0))
        })

    /// Of the table whose rows can be sorted and chosen.
    static func columns(of view: LiveView.Name) -> [TopColumn] {
        switch view {
        case .locks: locks
        case .services: services
        case .grants, .lock: grants
        case .events: events
        case .domains: domains
        case .overview: fleet
        case .service: limits
        }
    }

    static func titles(of view: LiveView.Name) -> [String] { columns(of: view).map(\.title) }

    /// The place of the column that a word names, or begins to.
    static func column(_ word: String, of view: LiveView.Name) -> Int? {
        let word = word.uppercased()
        let titles = titles(of: view)
        return titles.firstIndex(of: word) ?? titles.firstIndex { $0.hasPrefix(word) }
    }

    // MARK: Words

    static func time(_ milliseconds: Int64?) -> String { ReadableText.moment(epochMilliseconds: milliseconds ?? 0) }

    static func mode(_ lock: JSONValue) -> String {
        guard let places = lock["permits"].integer else { return lock["mode"].text ?? "" }
        return "\(lock["holders"].integer ?? 0) of \(places) places"
    }

    static func breakerWhy(_ breaker: JSONValue) -> String {
        let snapshot = BreakerSnapshot(
            state: .closed, text: { breaker[$0].text }, number: { breaker[$0].integer }, share: { breaker[$0].share })
        return snapshot.reasons(ownCause: breaker["own_cause"].text)
    }

    static func probe(_ probe: JSONValue?, now: Int64) -> String {
        guard let probe, case .object = probe else { return "" }
        guard let finding = probe["finding"].text else { return "none yet (\(probe["prober"].text ?? ""))" }
        let reason = probe["reason"].text.map { ": \($0)" } ?? ""
        let age = ReadableText.span(milliseconds: max(0, now.less(probe["at_ms"].integer ?? now)))
        return "\(finding)\(reason), \(age) ago"
    }
}
