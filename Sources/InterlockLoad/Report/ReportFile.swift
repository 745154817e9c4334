internal import FoundationEssentials

/// A file that a report is written to.
public struct ReportFile: Sendable {
    public let path: String

    public init(path: String) {
        self.path = path
    }

    /// Writes all of it or nothing: whoever reads the file sees the old text or the new one. What is no file, as `/dev/stdout`
    /// or a named pipe, is written to as it is.
    /// - Throws: `ReportFileError`.
    public func write(_ text: String) throws {
        let kind = try? FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType
        guard !path.isEmpty, kind != .typeDirectory else { throw ReportFileError(path: path, reason: "that is no file") }
        // Replacing a device or a pipe by a file would break it for all others.
        let isReplaceable = kind == nil || kind == .typeRegular
        do {
            try Data(text.utf8).write(to: URL(filePath: path), options: isReplaceable ? .atomic : [])
        } catch {
            throw ReportFileError(path: path, reason: (error as? CocoaError)?.reason ?? "\(error)")
        }
    }
}

/// A report that could not be written.
public struct ReportFileError: Error, CustomStringConvertible, Sendable {
    public let path: String
    public let reason: String

    public var description: String {
        "the report cannot be written to \"\(path)\": \(reason); name a file in a folder that exists and can be written to"
    }
}

extension CocoaError {
    fileprivate var reason: String? {
        switch code {
        case .fileNoSuchFile, .fileReadNoSuchFile: "its folder does not exist"
        case .fileWriteNoPermission: "that is not permitted"
        case .fileWriteOutOfSpace: "no space is left"
        case .fileWriteVolumeReadOnly: "the file system is read-only"
        default: nil
        }
    }
}
