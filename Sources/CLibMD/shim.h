// libmd as Swift sees it: message digests.
#pragma once

// SHA1_CTX, SHA1Init, SHA1Update, SHA1Final.
#include <sha1.h>
// SHA2_CTX, SHA256Init, SHA256Update, SHA256Final.
#include <sha2.h>
