#ifndef INTERLOCK_ARGUMENTS_H
#define INTERLOCK_ARGUMENTS_H

/// The arguments of this process, as the C library passed them before `main`. They never change.
///
/// Swift's `CommandLine` reads `/proc/self/cmdline` and has no arguments where that cannot be read, as in a chroot.
int interlock_argument_count(void);

/// `interlock_argument_count()` strings, and a null pointer behind them.
char **interlock_arguments(void);

#endif
