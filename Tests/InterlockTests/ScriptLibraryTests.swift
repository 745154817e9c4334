import Foundation
import InterlockCore
import Testing

@testable import Interlock

@Suite("The library of Lua scripts")
struct ScriptLibraryTests {
    private static let files = ScriptLibrary.files.mapValues { LuaFile($0) }
    private static let names = files.keys.sorted()
    private static let constants = LockScripts.constants(LockSettings(), isOnCluster: false)
        .merging(ScriptLibrary.constants) { $1 }

    @Test("Every .lua file is registered")
    func everyLuaFileIsRegistered() throws {
        let project = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
        let paths = try FileManager.default.subpathsOfDirectory(atPath: "\(project)/Sources/Interlock")
        let files = paths.filter { $0.hasSuffix(".lua") }.compactMap { $0.split(separator: "/").last?.dropLast(".lua".count) }
        #expect(files.map(String.init).sorted() == Self.names)
    }

    @Test("A file opens with a comment, and a script's comment names KEYS, ARGV, the reply and the guarantee", arguments: names)
    func everyFileOpensWithComment(name: String) {
        let lines = Self.files[name]?.lines ?? []
        let header = lines.prefix { $0.hasPrefix("--") }
        #expect(header.dropFirst(ScriptLibrary.needs(of: name).isEmpty ? 0 : 1).first?.hasPrefix("-- ") == true)
        #expect(lines.last?.isEmpty == true, "the next file would start in this one's last line")
        guard !Self.names.contains(where: { ScriptLibrary.needs(of: $0).contains(name) }) else { return }
        for start in ["-- KEYS  ", "-- ARGV  ", "-- Reply ", "-- Guarantees"] {
            #expect(header.contains { $0.hasPrefix(start) }, "no line begins with \(start)")
        }
    }

    @Test("Each file that another needs exists, and no file needs itself, even through others", arguments: names)
    func everyRequiredFileExists(name: String) {
        var path: [String] = []
        func visit(_ name: String) {
            guard Self.constants[name] == nil else { return }
            guard ScriptLibrary.files[name] != nil else { return #expect(Bool(false), "\(path) need \(name), which is missing") }
            guard !path.contains(name) else { return #expect(Bool(false), "a cycle: \(path)") }
            path.append(name)
            ScriptLibrary.needs(of: name).forEach(visit)
            path.removeLast()
        }
        visit(name)
    }

    @Test("A file uses only names declared by itself or by its needs", arguments: names)
    func unknownNames(name: String) {
        let neededNames = ScriptLibrary.needs(of: name).flatMap(Self.declared)
        #expect(Self.files[name]?.used.subtracting(neededNames).sorted() == [])
    }

    @Test("A file uses everything that it needs", arguments: names)
    func unusedNeeds(name: String) {
        let used = Self.files[name]?.used ?? []
        let unused = ScriptLibrary.needs(of: name).filter { need in
            used.isDisjoint(with: Self.declared(by: need)) && Self.files[need]?.acts != true
        }
        #expect(unused == [])
    }

    @Test("A script and its needs never declare a local twice", arguments: names)
    func declaredOnce(name: String) {
        let source = ScriptLibrary.source(of: name, constants: Self.constants)
        let declared = LuaFile(source).declared
        #expect(Dictionary(grouping: declared, by: \.self).filter { $1.count > 1 }.keys.sorted() == [])
    }

    private static func declared(by need: String) -> [String] { files[need]?.declared ?? [need] }
}

/// A line-based parser of a Lua file in which blocks are indented and strings have single quotes.
private struct LuaFile {
    let lines: [Substring]
    /// The locals of the outermost block.
    private(set) var declared: [String] = []
    /// The names that the file uses, but declares nowhere.
    private(set) var used: Set<String> = []
    /// Whether the outermost block has statements other than declarations.
    private(set) var acts = false

    private static let keywords: Set<String> = [
        "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not", "or",
        "repeat", "return", "then", "true", "until", "while",
    ]
    private static let globals: Set<String> = [
        "ARGV", "KEYS", "cjson", "cmsgpack", "error", "ipairs", "math", "next", "pairs", "pcall", "redis", "string", "table",
        "tonumber", "tostring", "type", "unpack",
    ]

    init(_ text: [UInt8]) {
        lines = String(decoding: text, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        var locals: Set<String> = []
        for line in lines {
            let code = line.replacing(#/'(?:[^'\\]|\\.)*'/#, with: "''").replacing(#/--.*/#, with: "")
            let statement = code.drop { $0 == " " }
            var names: [String] = []
            if let match = statement.prefixMatch(of: #/local (?:function )?(\w+(?:, \w+)*)/#) { names += Self.list(match.1) }
            if code.startIndex == statement.startIndex {
                declared += names
                if statement.contains(#/^(?!local |end|[)}])\S/#) { acts = true }
            }
            if let match = code.firstMatch(of: #/function[ \w.]*\(([\w, ]*)\)/#) { names += Self.list(match.1) }
            if let match = statement.prefixMatch(of: #/for (\w+(?:, \w+)*) (?:=|in) /#) { names += Self.list(match.1) }
            locals.formUnion(names)
            // A field follows a dot; the key of a table, inside braces, precedes an equals sign.
            var usedCode = code.replacing(#/[.:]\w+/#, with: "")
            if statement.contains(#/^\w+ = .*(,|}\))$/#) { usedCode = "{" + usedCode.drop { $0 == " " } }
            if usedCode.contains("{") { usedCode = usedCode.replacing(#/([{,]) *\w+ = /#) { "\($0.1)" } }
            for word in usedCode.matches(of: #/\w+/#).map(\.output) where word.first?.isNumber == false {
                used.insert(String(word))
            }
        }
        used.subtract(locals.union(Self.keywords).union(Self.globals))
    }

    private static func list(_ names: Substring) -> [String] { names.split(separator: ", ").map(String.init) }
}
