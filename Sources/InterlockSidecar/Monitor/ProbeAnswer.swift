/// What an HTTP probe was answered.
package struct ProbeAnswer: Sendable {
    var status: Int
    var headers: [(name: String, value: String)]
    /// At most what is looked at.
    var body: [UInt8]
    /// There was more of it.
    var isCut: Bool

    package init(status: Int, headers: [(name: String, value: String)], body: [UInt8], isCut: Bool) {
        self.status = status
        self.headers = headers
        self.body = body
        self.isCut = isCut
    }

    /// The values of a header, one for each time that it is there.
    func values(of name: String) -> [String] {
        headers.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    }
}
