/// Calendar times as Unix time in milliseconds.
package enum EpochMilliseconds {
    /// The range from 1970 to the end of the year 9999. A received number outside of this range is not a calendar time.
    package static let calendarRange: ClosedRange<Int64> = 0...253_402_300_799_999
}
