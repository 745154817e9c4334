internal import FoundationEssentials

/// Finds keys that occur more than once in an object of a JSON document. RFC 8259, section 4, does not define which of
/// their values counts, and decoders silently keep one.
enum DuplicateJSONKeys {
    private enum Container {
        case list
        /// An object: the names found so far, and whether the next string is a name.
        case object(names: Set<String>, expectsName: Bool)
    }

    /// Returns the names that occur more than once in an object. O(n).
    ///
    /// - Parameter document: a document that a decoder has accepted.
    static func names(in document: [UInt8]) -> Set<String> {
        var repeatedNames: Set<String> = []
        var openContainers: [Container] = []
        var index = 0
        while index < document.count {
            switch document[index] {
            case UInt8(ascii: "{"): openContainers.append(.object(names: [], expectsName: true))
            case UInt8(ascii: "["): openContainers.append(.list)
            case UInt8(ascii: "}"), UInt8(ascii: "]"): _ = openContainers.popLast()
            case UInt8(ascii: ","):
                if case .object(let names, _)? = openContainers.popLast() {
                    openContainers.append(.object(names: names, expectsName: true))
                } else {
                    openContainers.append(.list)
                }
            case UInt8(ascii: "\""):
                let start = index
                index = endOfString(in: document, from: index)
                guard case .object(var names, true)? = openContainers.last else { break }
                openContainers.removeLast()
                let name = content(of: document[start...min(index, document.count - 1)])
                if !names.insert(name).inserted { repeatedNames.insert(name) }
                openContainers.append(.object(names: names, expectsName: false))
            default: break
            }
            index += 1
        }
        return repeatedNames
    }

    /// Returns the index of the quote that ends a string.
    private static func endOfString(in document: [UInt8], from start: Int) -> Int {
        var index = start + 1
        while index < document.count, document[index] != UInt8(ascii: "\"") {
            index += document[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        return index
    }

    /// Returns the content of a quoted string, with its escapes decoded.
    private static func content(of quoted: ArraySlice<UInt8>) -> String {
        guard quoted.contains(UInt8(ascii: "\\")) else { return String(decoding: quoted.dropFirst().dropLast(), as: UTF8.self) }
        return (try? JSONDecoder().decode(String.self, from: Data(quoted))) ?? ""
    }
}
