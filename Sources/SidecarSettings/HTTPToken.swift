/// The syntax of methods and field names (RFC 9110, section 5.6.2).
package enum HTTPToken {
    package static func isValid(_ text: String) -> Bool {
        !text.isEmpty
            && text.unicodeScalars.allSatisfy { scalar in
                switch scalar {
                case "a"..."z", "A"..."Z", "0"..."9": true
                default: "!#$%&'*+-.^_`|~".unicodeScalars.contains(scalar)
                }
            }
    }
}
