/// The tags of fields, by wire type.
package enum ProtobufTag {
    /// Returns the tag of a number of variable length.
    package static func number(_ field: UInt64) -> UInt64 { field << 3 }
    /// Returns the tag of an 8-byte number, least significant byte first.
    package static func fixed64(_ field: UInt64) -> UInt64 { field << 3 | 1 }
    /// Returns the tag of a text or a message.
    package static func content(_ field: UInt64) -> UInt64 { field << 3 | 2 }
    /// Returns the tag of a 4-byte number, least significant byte first.
    package static func fixed32(_ field: UInt64) -> UInt64 { field << 3 | 5 }
}
