#include "arguments.h"

static char *none[] = {0};
static int count = 0;
static char **words = none;

// glibc calls constructors with the arguments of `main`.
__attribute__((constructor)) static void keep_arguments(int argc, char **argv) {
    count = argc;
    words = argv;
}

int interlock_argument_count(void) { return count; }

char **interlock_arguments(void) { return words; }
