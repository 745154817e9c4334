/// The scripts of locks, as Redis remembers them.
enum ModelScript: Hashable {
    case acquire, renew, release, leave, share, shareRenew, shareRelease
}
