/// A self-contained HTML page. Its content security policy forbids scripts and external resources.
struct HTMLPage {
    let title: String
    let body: Markup

    var text: String {
        let page: Markup = """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <title>\(title)</title>
            <style>
            \(Self.style)
            \(PlotStyle.page)
            </style>
            </head>
            <body>
            <main>
            \(body)
            </main>
            </body>
            </html>

            """
        return page.text
    }

    /// Returns a figure: a plot below its title, with its numbers in a collapsed table.
    /// - Parameter id: an identifier that is unique in the page.
    static func figure(_ plot: some Plot, id: String) -> Markup {
        let numbers = plot.numbers
        let omission: Markup =
            numbers.rows.count < numbers.total
            ? "<p>\(Figure.count(numbers.rows.count)) of \(Figure.count(numbers.total)) rows: \(numbers.choice).</p>" : ""
        let table: Markup =
            plot.isEmpty
            ? ""
            : "<details><summary>in numbers</summary>\(omission)\(Self.table(plot.frame.title, numbers.columns, numbers.rows))</details>"
        return """
            <figure>
            <h3>\(plot.frame.title)</h3>
            <p>\(plot.frame.summary)</p>
            <div class="scroll" tabindex="0" role="region" aria-label="\(plot.frame.title)">\(plot.svg(id: id))</div>
            \(table)
            </figure>

            """
    }

    /// Returns a table.
    /// - Parameters:
    ///   - label: the name of the table for screen readers.
    ///   - columns: the column headings.
    ///   - rows: the cells. The first column identifies the row.
    ///   - words: the number of leading columns that hold text instead of numbers.
    static func table(_ label: String, _ columns: [String], _ rows: [[String]], words: Int = 1) -> Markup {
        func cells(_ row: [String], _ cell: (String, Int) -> Markup) -> [Markup] {
            row.enumerated().map { cell($1, $0) }
        }
        let alignment = { (column: Int) -> Markup in column < words ? " class=\"word\"" : "" }
        let head = cells(columns) { "<th scope=\"col\"\(alignment($1))>\($0)</th>" }
        let lines = rows.map { row -> Markup in
            let line = cells(row) {
                $1 == 0
                    ? "<th scope=\"row\"\(alignment($1))>\($0)</th>" : "<td\(alignment($1))>\($0)</td>"
            }
            return "<tr>\(line)</tr>\n"
        }
        return """
            <div class="scroll" tabindex="0" role="region" aria-label="\(label)">\
            <table><thead><tr>\(head)</tr></thead><tbody>
            \(lines)</tbody></table></div>
            """
    }

    private static let style: Markup = """
        :root{color-scheme:light dark;--paper:#fff;--card:#f6f8fa;--line:#d8dee4;--text:#1f2328;--faint:#59636e;--good:#1a7f37;--bad:#cf222e}
        @media (prefers-color-scheme:dark){:root{--paper:#0d1117;--card:#161b22;--line:#30363d;--text:#e6edf3;--faint:#9aa4ae;\
        --good:#3fb950;--bad:#ff6b66}}
        *{box-sizing:border-box}
        body{margin:0;background:var(--paper);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
        main{max-width:1440px;margin:0 auto;padding:20px 16px 60px}
        h1{font-size:1.6rem;margin:0 0 4px}h2{font-size:1.15rem;margin:36px 0 8px}h3{font-size:1rem;margin:0}
        p{margin:0 0 8px;color:var(--faint);max-width:80ch;overflow-wrap:anywhere}
        .verdict{display:inline-block;margin:12px 0;padding:8px 14px;border-left:5px solid;background:var(--card);color:var(--text);font-weight:600;font-size:1.05rem}
        .good{border-color:var(--good)}.bad{border-color:var(--bad)}
        .plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,600px),1fr));gap:20px}
        figure{margin:0;padding:14px;background:var(--card);border:1px solid var(--line);border-radius:8px;min-width:0}
        figure p{font-size:.85rem}
        .scroll{overflow-x:auto}.scroll+p{margin-top:8px}
        figure>.scroll>svg{display:block;width:100%;min-width:540px;height:auto}
        details{margin-top:8px}summary{cursor:pointer;color:var(--faint);font-size:.85rem}
        details .scroll{max-height:340px;overflow:auto}
        table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.875rem}
        th,td{padding:4px 14px 4px 0;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;unicode-bidi:isolate}
        .word{text-align:left}thead th{color:var(--faint);font-weight:600}tbody th{font-weight:400}
        dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:8px 0}dt{color:var(--faint)}dd{margin:0;overflow-wrap:anywhere}
        li{overflow-wrap:anywhere}
        """
}
