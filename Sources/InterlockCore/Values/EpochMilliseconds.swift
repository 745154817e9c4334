/// Moments as people's clocks show them, in milliseconds of the Unix epoch.
package enum EpochMilliseconds {
    /// From 1970 to the end of the year 9999. What comes from elsewhere may be any number: others are no moments of a calendar.
    package static let calendar: ClosedRange<Int64> = 0...253_402_300_799_999
}
