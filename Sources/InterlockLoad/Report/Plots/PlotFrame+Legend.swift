extension PlotFrame {
    static func rows(of legend: [LegendEntry]) -> [[LegendEntry]] {
        var rows: [[LegendEntry]] = []
        var end = Double.infinity
        for entry in legend {
            let width = legendWidth(entry)
            if end + width > Self.width - 12 {
                rows.append([])
                end = 4
            }
            rows[rows.count - 1].append(entry)
            end += width
        }
        return rows
    }

    var legendRow: Markup {
        var markup = Markup()
        for (row, entries) in legendRows.enumerated() {
            var place = 4.0
            let middle = 10 + Double(row) * 18
            for entry in entries {
                let swatch: Markup =
                    switch entry.mark {
                    case .line, .dashes:
                        """
                        <path class="line \(entry.tone.styleName)\(entry.mark == .dashes ? " dashed" : "")" \
                        d="M\(place) \(middle)h18"/>
                        """
                    case .area:
                        "<rect class=\"area \(entry.tone.styleName)\" x=\"\(place)\" y=\"\(middle - 5)\" width=\"18\" height=\"10\"/>"
                    }
                markup += "\(swatch)<text x=\"\(place + 23)\" y=\"\(middle + 4)\">\(entry.name)</text>"
                place += Self.legendWidth(entry)
            }
        }
        return markup
    }

    private static func legendWidth(_ entry: LegendEntry) -> Double {
        23 + TextWidth.pixels(of: entry.name, size: 12) + 16
    }
}
