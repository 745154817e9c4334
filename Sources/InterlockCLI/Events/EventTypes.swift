import ArgumentParser
import Interlock

/// A type of event to follow, or what the names of several begin with: `limit` for `limit.near`, `limit.reached` …
struct EventTypes: ExpressibleByArgument {
    private let name: String

    init?(argument: String) {
        name = argument
        guard EventPayload.allTypes.contains(where: includes) else { return nil }
    }

    static var allValueStrings: [String] {
        let types = EventPayload.allTypes
        return Set(types.map { $0.prefix { $0 != "." } }.map(String.init)).union(types).sorted()
    }

    func includes(_ type: String) -> Bool { type == name || type.hasPrefix(name + ".") }
}
