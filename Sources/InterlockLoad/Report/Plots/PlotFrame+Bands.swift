extension PlotFrame {
    /// The names of bands stand above the area, in so many rows at most.
    static let bandRows = 2
    static let bandRowHeight = 12.0

    /// The bands, with as many of their names as find room.
    var shading: Markup {
        var shading = Markup()
        var taken = [Double](repeating: -.infinity, count: Self.bandRows)
        for band in Thinning.heaviest(bands, by: { $0.ended - $0.began < $1.ended - $1.began }) {
            guard let began = x(band.began), let ended = x(band.ended) else { continue }
            shading += """
                <rect class="band" x="\(began)" y="\(top)" width="\(max(ended - began, 1.5))" height="\(areaHeight)">\
                <title>\(band.detail)</title></rect>
                """
            let end = began + TextWidth.pixels(of: band.name, size: 10)
            guard end <= Self.width, let row = taken.firstIndex(where: { $0 < began }) else { continue }
            taken[row] = end + 4
            let line = top - 4 - Double(Self.bandRows - 1 - row) * Self.bandRowHeight
            shading += "<text class=\"bandname\" x=\"\(began)\" y=\"\(line)\">\(band.name)</text>"
        }
        return shading
    }
}
