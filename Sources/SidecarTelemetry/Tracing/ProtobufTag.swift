/// What stands before a field.
package enum ProtobufTag {
    package static func number(_ field: UInt64) -> UInt64 { field << 3 }
    /// A number of 8 bytes, the least significant first.
    package static func fixed64(_ field: UInt64) -> UInt64 { field << 3 | 1 }
    /// A text or a message.
    package static func content(_ field: UInt64) -> UInt64 { field << 3 | 2 }
    /// A number of 4 bytes, the least significant first.
    package static func fixed32(_ field: UInt64) -> UInt64 { field << 3 | 5 }
}
