import FoundationEssentials
import InterlockLoad
import Testing

@Suite("Report files")
struct ReportFileTests {
    private func withFolder(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "interlock-report-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder.path)
    }

    @Test("An existing file is replaced, and nothing else is left behind")
    func existingFileIsReplaced() throws {
        try withFolder { folder in
            let file = ReportFile(path: folder + "/report.json")
            try file.write("a long first text")
            try file.write("second")
            let content = try String(contentsOfFile: file.path, encoding: .utf8)
            let names = try FileManager.default.contentsOfDirectory(atPath: folder)
            #expect(content == "second")
            #expect(names == ["report.json"])
        }
    }

    @Test("A device is written to, not replaced by a file")
    func device() throws {
        try ReportFile(path: "/dev/null").write("text")
        let kind = try FileManager.default.attributesOfItem(atPath: "/dev/null")[.type] as? FileAttributeType
        #expect(kind == .typeCharacterSpecial)
    }

    @Test("An error names the file and the remedy")
    func missingFolder() throws {
        try withFolder { folder in
            let error = #expect(throws: ReportFileError.self) { try ReportFile(path: folder + "/none/report.html").write("text") }
            let expected = folder + "/none/report.html\": its directory does not exist; choose a file"
            #expect(error?.description.contains(expected) == true)
        }
    }

    @Test("A directory and an empty name are rejected", arguments: ["/tmp", ""])
    func noFile(path: String) {
        #expect(throws: ReportFileError.self) { try ReportFile(path: path).write("text") }
    }
}
