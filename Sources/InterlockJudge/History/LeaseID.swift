/// The number of a lease in a run. Each grant has its own.
package typealias LeaseID = Int64
