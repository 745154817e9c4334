import Yams

/// A mapping of the file that is being read. The keys that were asked for are the keys that are known.
final class ConfigurationSection {
    /// The mapping itself: for mistakes that no single key has made.
    let whole: ConfigurationValue
    private let entries: [(key: ConfigurationValue, name: String, value: ConfigurationValue)]
    private var known: [String] = []
    private var settled: Set<String> = []

    /// `nil`, and reported, when `value` is not a mapping with words as its keys.
    init?(_ value: ConfigurationValue) {
        whole = value
        guard !value.isNull else {
            entries = []
            return
        }
        guard case .mapping(let mapping) = value.node else {
            value.refuse(expected: ConfigurationExpectation("a mapping (key: value)"))
            return nil
        }
        entries = mapping.compactMap { key, node in
            guard case .scalar(let scalar) = key, !scalar.string.isEmpty else {
                value.child(key, "").refuse("expected a word as key")
                return nil
            }
            let word = ConfigurationValue.cut(scalar.string)
            let step = value.path.isEmpty ? word : "." + word
            return (value.child(key, step), scalar.string, value.child(node, step))
        }
    }

    /// The value of `key`, also when it says nothing.
    func value(_ key: String) -> ConfigurationValue? {
        known.append(key)
        return entries.first { $0.name == key }?.value
    }

    /// Hands the value of `key` over, if it is there.
    func read(_ key: String, _ read: (ConfigurationValue) -> Void) {
        if let value = value(key) { read(value) }
    }

    /// Puts what `key` says into `target`; leaves it alone, with the default it holds, when nothing usable is said.
    func read<Parsed>(_ key: String, into target: inout Parsed, _ parse: (ConfigurationValue) -> Parsed?) {
        if let value = value(key), let parsed = parse(value) { target = parsed }
    }

    /// As `read(_:into:_:)`, and `null` means none.
    func readOptional<Parsed>(_ key: String, into target: inout Parsed?, _ parse: (ConfigurationValue) -> Parsed?) {
        guard let value = value(key) else { return }
        if value.isNull { target = nil } else if let parsed = parse(value) { target = parsed }
    }

    /// What `key` says; refused when it is not there.
    func required<Parsed>(_ key: String, _ wanted: String, _ parse: (ConfigurationValue) -> Parsed?) -> Parsed? {
        guard let value = value(key) else {
            whole.refuse("expected the key \(key): \(wanted)")
            return nil
        }
        return parse(value)
    }

    /// Every entry, in the order of the file, where keys are names that users choose.
    func named() -> [(key: ConfigurationValue, name: String, value: ConfigurationValue)] {
        known.append(contentsOf: entries.map(\.name))
        return entries
    }

    /// Refuses keys with a reason of their own: they mean something, but not here or not yet.
    func refuse(_ keys: [String], _ reason: String) {
        for entry in entries where keys.contains(entry.name) {
            settled.insert(entry.name)
            entry.key.refuse(reason)
        }
    }

    func refuseUnknownKeys() {
        for entry in entries where !known.contains(entry.name) && !settled.contains(entry.name) {
            let suggestion = ConfigurationText.closest(to: entry.name, among: known)
            let hint = suggestion.map { "did you mean \($0)?" } ?? "expected \(ConfigurationText.alternatives(known))"
            entry.key.refuse("unknown key; \(hint)")
        }
    }
}
