/// Calendar times as Unix time in milliseconds.
package enum EpochMilliseconds {
    /// The range from 1970 to the end of the year 9999. Received numbers outside of it are not calendar times.
    package static let calendar: ClosedRange<Int64> = 0...253_402_300_799_999
}
