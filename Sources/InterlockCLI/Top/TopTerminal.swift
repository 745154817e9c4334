import Glibc
import InterlockCommandLine
import InterlockOutput

/// The terminal while `interlock top` runs: the alternate screen, without echo and cursor.
struct TopTerminal {
    private let settings: termios

    /// Switches the terminal to the alternate screen.
    /// - Throws: `CommandFailure` if standard input is not a usable terminal.
    static func open() throws(CommandFailure) -> TopTerminal {
        var settings = termios()
        guard tcgetattr(STDIN_FILENO, &settings) == 0 else { throw failure(to: "read") }
        var rawSettings = settings
        rawSettings.c_lflag &= ~tcflag_t(ICANON | ECHO | IEXTEN)
        // Ctrl-Z would stop the process without restoring the terminal.
        withUnsafeMutableBytes(of: &rawSettings.c_cc) { $0[Int(VSUSP)] = 0 }
        guard tcsetattr(STDIN_FILENO, TCSAFLUSH, &rawSettings) == 0 else { throw failure(to: "change") }
        // Alternate screen, no cursor, and no wrapping of long lines.
        Self.write("\u{1B}[?1049h\u{1B}[?25l\u{1B}[?7l")
        return TopTerminal(settings: settings)
    }

    /// Creates the error for a system call that has just failed.
    private static func failure(to verb: String) -> CommandFailure {
        let reason = String(cString: strerror(errno))
        return CommandFailure("cannot \(verb) the terminal's settings: \(reason); use --once or --json", .usage)
    }

    /// Restores the previous state of the terminal.
    func restore() {
        Self.write("\u{1B}[0m\u{1B}[?7h\u{1B}[?25h\u{1B}[?1049l")
        Terminal.flush()
        var settings = settings
        // TCSAFLUSH waits until the output is written, which may never happen if the terminal is paused.
        tcsetattr(STDIN_FILENO, LineWriter.standardOutput.isBusy ? TCSANOW : TCSAFLUSH, &settings)
    }

    func draw(_ screen: inout TopScreen) {
        // Skips this frame while the last one is still being written: the terminal may be paused (Ctrl-S), or its
        // network may be stalled.
        guard !LineWriter.standardOutput.isBusy else { return }
        let (columns, rows) = Self.size
        var text = ""
        for (index, line) in screen.lines(columns: columns, rows: rows).enumerated() {
            // Each line is positioned by its row, because the terminal may measure widths differently. It is cleared
            // before it is written, because clearing after a full line would erase the last cell.
            text += "\u{1B}[\(index + 1);1H\u{1B}[2K"
            switch line.style {
            case .plain: text += line.text
            case .bold: text += "\u{1B}[1m\(line.text)\u{1B}[0m"
            case .reverse: text += "\u{1B}[7m\(line.text)\u{1B}[0m"
            }
        }
        Self.write(text)
    }

    /// The current size of the terminal; 80 by 24 if it is unknown.
    static var size: (columns: Int, rows: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// The maximum width of a line; `nil` if the output is not a terminal, which needs no truncation.
    static var columns: Int? { isatty(STDOUT_FILENO) == 1 ? size.columns : nil }

    /// Returns the bytes that the user typed; empty at the end of the input.
    static func read() -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = Glibc.read(STDIN_FILENO, &bytes, bytes.count)
        return Array(bytes.prefix(max(0, count)))
    }

    private static func write(_ text: String) { LineWriter.standardOutput.add(bytes: Array(text.utf8)) }

    /// Returns the number of terminal cells that a text occupies.
    static func width(_ text: String) -> Int {
        guard !text.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) else { return text.utf8.count }
        return text.unicodeScalars.reduce(0) { $0 + width($1) }
    }

    /// Returns the longest prefix of a text that fits into the columns.
    static func truncated(_ text: String, columns: Int?) -> String {
        guard let columns, width(text) > columns else { return text }
        var usedColumns = 0
        var truncated = ""
        for scalar in text.unicodeScalars {
            usedColumns += width(scalar)
            guard usedColumns <= columns else { break }
            truncated.unicodeScalars.append(scalar)
        }
        return truncated
    }

    /// Returns the approximate width of a character. East Asian scripts and emoji occupy two cells (Unicode Standard
    /// Annex 11).
    private static func width(_ scalar: Unicode.Scalar) -> Int {
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format: return 0
        default: break
        }
        switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
            0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x20000...0x3FFFD:
            return 2
        default: return scalar.properties.isEmojiPresentation ? 2 : 1
        }
    }
}
