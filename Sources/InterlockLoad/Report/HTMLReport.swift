internal import FoundationEssentials

/// A run as one self-contained HTML page with tables, plots and findings.
package struct HTMLReport: Sendable {
    let report: RunReport

    package init(_ report: RunReport) {
        self.report = report
    }

    /// The HTML text. Long series are thinned, but keep their extremes.
    package var text: String { HTMLPage(title: "\(report.title): \(report.check.verdict)", body: body).text }

    private var body: Markup {
        """
        <h1>interlock bench \(report.title)</h1>
        <p>\(subtitle)</p>
        <div class="verdict \(report.check.isClean ? "good" : "bad" as Markup)">\(report.check.verdict)</div>
        \(settings)
        \(violations)
        <h2>Operations</h2>
        \(operations)
        <p>Latency is measured from the scheduled time of an operation, not from when it was sent. Unanswered operations have none.</p>
        \(reasons)
        <h2>Over time</h2>
        <div class="plots">
        \(plots)</div>
        <h2>Resources</h2>
        \(usage)
        <h2>Faults</h2>
        \(faults)
        <h2>Checks</h2>
        \(checks)
        """
    }

    private var subtitle: String {
        // The formatter supports dates up to the end of the year 9999.
        let seconds = Double(min(max(report.startedAtMilliseconds, 0), 253_402_300_799_999)) / 1000
        let started = Date.ISO8601FormatStyle().format(Date(timeIntervalSince1970: seconds))
        return "\(Figure.span(seconds: report.durationSeconds)) from \(started), seed \(report.seed)"
    }
}

/// A file that a report is written to.
package struct ReportFile: Sendable {
    package let path: String

    package init(path: String) {
        self.path = path
    }

    /// Writes the text atomically: a reader of the file sees either the old text or the new one. Writes directly to
    /// anything but a regular file, such as `/dev/stdout` or a named pipe.
    /// - Throws: `ReportFileError`.
    package func write(_ text: String) throws {
        let fileType = try? FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType
        guard !path.isEmpty, fileType != .typeDirectory else {
            throw ReportFileError(path: path, reason: "it is not a file")
        }
        // Replacing a device or a pipe with a file would break it for all other programs.
        let isReplaceable = fileType == nil || fileType == .typeRegular
        do {
            try Data(text.utf8).write(to: URL(filePath: path), options: isReplaceable ? .atomic : [])
        } catch {
            throw ReportFileError(path: path, reason: (error as? CocoaError)?.reason ?? "\(error)")
        }
    }
}

/// A failure to write a report.
package struct ReportFileError: Error, CustomStringConvertible, Sendable {
    package let path: String
    package let reason: String

    package var description: String {
        "cannot write the report to \"\(path)\": \(reason); choose a file in a writable directory"
    }
}

extension CocoaError {
    fileprivate var reason: String? {
        switch code {
        case .fileNoSuchFile, .fileReadNoSuchFile: "its directory does not exist"
        case .fileWriteNoPermission: "permission denied"
        case .fileWriteOutOfSpace: "no space left"
        case .fileWriteVolumeReadOnly: "the file system is read-only"
        default: nil
        }
    }
}
